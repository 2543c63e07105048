// The sink of the example store: its logs, its formats, and the port of sinks/keyed-sink.ts.

import { type AddFormats, admitFormats, type FormatLimits, openFormats } from '../../sinks/formats.ts'
import { type KeyedReplays, openKeyedReplay } from '../../sinks/keyed-replay.ts'
import { type KeyedStore, openKeyedSink } from '../../sinks/keyed-sink.ts'
import { type LogTable, openLogRegistry, openLogs, type SinkLogs } from '../../sinks/logs.ts'
import { resolveFormats } from '../../sinks/rejections.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import type { ErrorClass, LogNumbers, Sink } from '../../sinks/sink.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { type EncodedBatch, encode } from './encode.ts'
import type { FileStore } from './file.ts'

export interface FileSinkOptions extends SinkLogs {
  /** Opened by the caller, who closes it after the sink. */
  readonly file: FileStore
  readonly options: FormatLimits
}

/** @throws SinkError (systemic) if the log belongs to another writer, or was recreated */
export async function openSink({ file, options, logs }: FileSinkOptions): Promise<Sink<EncodedBatch>> {
  const opened = await openLogs(logs, openLogRegistry(logTable(file)))
  return openKeyedSink(openStore(file, options, opened.logNumbers), opened)
}

/** A sink for replays of dead letters: it registers nothing. */
export function openReplaySink({ file, options }: Pick<FileSinkOptions, 'file' | 'options'>, logNumber: number): ReplaySink {
  const replays: KeyedReplays = {
    noteReplays: async positions =>
      void (await file.update(() => Array.from(positions, position => JSON.stringify({ replayed: String(position) })))),
    deleteRows: async position => void (await file.update(() => [JSON.stringify({ deleted: String(position) })])),
  }
  return openKeyedReplay(openStore(file, options, [logNumber]), replays, logNumber)
}

function openStore(file: FileStore, options: FormatLimits, logNumbers: LogNumbers): KeyedStore<EncodedBatch> {
  const formats = openFormats(formatAdder(file, options))
  return {
    encode: batch => encode(batch, logNumbers),
    async prepare(encoded, signal) {
      const used = Array.from(
        Map.groupBy(encoded.rows, ({ format }) => format),
        ([format, rows]) => ({
          format,
          channels: new Set(rows.map(({ channel }) => channel)),
          messages: rows.map(({ message }) => message),
        }),
      )
      await resolveFormats(formats, encoded, used, signal)
    },
    async insert({ rows, rejected }, _prepared, signal) {
      await file.update(() => {
        signal.throwIfAborted()
        return rows.filter(({ message }) => !rejected.has(message)).map(({ line }) => line)
      })
      return undefined
    },
    async failed(error) {
      formats.forget()
      throw error
    },
    classify,
  }
}

export function logTable(file: FileStore): LogTable {
  return {
    read: async () => [...file.logs.values()],
    add: async log => (await file.update(() => (file.logs.has(log.number) ? [] : [JSON.stringify({ log })]))) === 1,
    update: async log => (await file.update(() => [JSON.stringify({ log })])) === 1,
    async remove({ number, acceptedMs }) {
      await file.update(() => (file.logs.get(number)?.acceptedMs === acceptedMs ? [JSON.stringify({ freed: number })] : []))
    },
  }
}

function formatAdder(file: FileStore, options: FormatLimits): AddFormats {
  return async missing => {
    let refused: Awaited<ReturnType<AddFormats>> = new Map()
    await file.update(() => {
      const admitted = admitFormats([...file.formats.values()], missing, options)
      refused = admitted.refused
      return admitted.added.map(format => JSON.stringify({ format }))
    })
    return refused
  }
}

const transientCodes = new Set(['ENOSPC', 'EDQUOT', 'EAGAIN', 'EMFILE'])

/** A full disk is waited for; any other error stops the writer. */
export function classify(error: unknown): ErrorClass {
  if (error instanceof SinkError) return error.errorClass
  return transientCodes.has(String((error as NodeJS.ErrnoException | undefined)?.code)) ? 'transient' : 'systemic'
}
