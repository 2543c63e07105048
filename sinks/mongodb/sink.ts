// The MongoDB sink: writes rows whose `_id` is made of their position, by the protocol in README.md.

import { senmlFormat } from '../../transformers/record-batch.ts'
import { openFormats } from '../formats.ts'
import { openKeyedReplay } from '../keyed-replay.ts'
import { type KeyedStore, openKeyedSink } from '../keyed-sink.ts'
import { openLogRegistry, openLogs, type SinkLogs } from '../logs.ts'
import { resolveFormats } from '../rejections.ts'
import type { ReplaySink } from '../replay.ts'
import type { LogNumbers, Sink } from '../sink.ts'
import type { Connection } from './connection.ts'
import { type EncodedBatch, encode } from './encode.ts'
import { classify, explained } from './errors.ts'
import { insertRows, outcomeOf, type Target } from './insert.ts'
import type { SinkOptions } from './options.ts'
import { formatAdder, openLogTable, openReplays, physicalName } from './registry.ts'
import { checkStore, prepareStore, probe } from './schema.ts'

export { classify } from './errors.ts'

export interface MongoSinkOptions extends SinkLogs {
  /** The caller opens it, and closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Called with a sentence for what the user may not create, with its consequence; the sink works all the same. */
  readonly onNotice?: (sentence: string) => void
}

export type MongoReplayOptions = Pick<MongoSinkOptions, 'connection' | 'options'> & { readonly logNumber: number }

/**
 * Opens a sink: creates the missing indexes if it can, and checks the logs.
 *
 * @throws SinkError (systemic) if a log belongs to another writer or is another one of this name, or if it is not a store of sluice
 * @throws the driver's errors; `classify` says what they mean
 */
export async function openSink({ connection, options, onNotice = () => undefined, logs }: MongoSinkOptions): Promise<Sink<EncodedBatch>> {
  try {
    await prepareStore(connection, onNotice)
    const opened = await openLogs(logs, openLogRegistry(openLogTable(connection)))
    return openKeyedSink(openStore(connection, options, opened.logNumbers), opened)
  } catch (error) {
    throw explained(error)
  }
}

/**
 * Opens a sink for replays, which creates and registers nothing.
 *
 * @throws SinkError (systemic) if the database is not a store of this version
 * @throws the driver's errors
 */
export async function openReplaySink({ connection, options, logNumber }: MongoReplayOptions): Promise<ReplaySink> {
  try {
    await checkStore(connection)
  } catch (error) {
    throw explained(error)
  }
  return openKeyedReplay(openStore(connection, options, [logNumber]), openReplays(connection), logNumber)
}

function openStore(connection: Connection, options: SinkOptions, logNumbers: LogNumbers): KeyedStore<EncodedBatch, readonly Target[]> {
  const formats = openFormats(formatAdder(connection, options))
  return {
    encode: batch => encode(batch, logNumbers),

    /** Returns the collections for the batch's rows, and rejects messages whose format gets none. */
    async prepare(encoded, signal) {
      const { tables } = encoded
      const used = tables.map(({ format, channels, rowMessage }) => ({ format, channels, messages: rowMessage }))
      const refused = await resolveFormats(formats, encoded, used, signal)
      return tables.flatMap(table => {
        if (refused.has(table.format)) return []
        return [{ table, collection: table.format === senmlFormat ? senmlFormat : physicalName(table.format) }]
      })
    },

    async insert({ rejected }, targets, signal) {
      const { writesInFlight } = options
      const errors = await insertRows({
        connection,
        targets,
        leftOut: rejected,
        writesInFlight,
        probe: signal => probe(connection, signal),
        signal,
      })
      const { duplicates, rejections } = await outcomeOf(connection, targets, errors, rejected, signal)
      for (const rejection of rejections) rejected.set(rejection.message, rejection)
      return duplicates
    },

    async failed(error) {
      formats.forget()
      throw explained(error)
    },
    classify,
  }
}
