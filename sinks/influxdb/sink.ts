// The InfluxDB sink: lines of text in compressed requests, some at once; what the server refuses is found, rejected, and taken away.

import type { RecordBatch } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import type { LogIdentity } from '../log-registry.ts'
import type { MessageCounts, Reject, Sink } from '../sink.ts'
import { textOf } from './bodies.ts'
import { openConflicts } from './conflicts.ts'
import type { Connection } from './connection.ts'
import { encode } from './encode.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { classify } from './errors.ts'
import { type Formats, openFormats } from './formats.ts'
import { writeLines } from './line-requests.ts'
import { registerLog } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { acknowledge, rejectBeyond, rejectCulprits, removePartly } from './rejections.ts'
import { noteReplays } from './replays.ts'
import { prepareSchema } from './schema.ts'
import { takeBack } from './taken-rows.ts'

export { classify } from './errors.ts'

export interface InfluxSinkOptions extends LogIdentity {
  /** Opened by the caller, who closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Told what is another than the options say. */
  readonly onNotice?: (sentence: string) => void
}

/** Of batches that were written: one is written while the next is encoded. Those of rare batches, made for far more bytes than others, are let go. */
const roomsMax = 2
const roomBytesMax = 16 * 1024 * 1024

/**
 * Opens a sink: makes the buckets that are missing, and registers the log.
 *
 * @throws SinkError, ResponseError; `classify` says what they mean
 */
export async function openSink({ connection, options, onNotice, ...identity }: InfluxSinkOptions): Promise<Sink<EncodedBatch>> {
  const schema = await prepareSchema(connection, options, onNotice)
  const logNumber = await registerLog(connection, identity)
  const formats = openFormats(connection, options)
  const conflicts = await openConflicts(connection)
  // Memory outside the heap that is taken anew for each batch makes the collector look at the whole heap again and again.
  const rooms: Buffer[] = []
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    signal.throwIfAborted()
    const writing = { connection, schema, logNumber, sizes: options, atOnce: options.requestsInFlight, signal }
    await rejectBeyond(encoded, writing)
    await rejectFormats(encoded, formats, signal)
    await acknowledge(encoded, reject, signal)
    // What was refused before comes first, so that nothing of its message is sent if it is refused again.
    const suspects = conflicts.suspects(encoded, line => textOf(encoded.lines, line))
    const refusedAgain = await writeLines(encoded, suspects, writing)
    await rejectCulprits(encoded, refusedAgain, { ...writing, conflicts })
    const refused = await writeLines(encoded, unwrittenLines(encoded, new Set(suspects)), writing)
    await rejectCulprits(encoded, refused, { ...writing, conflicts })
    await acknowledge(encoded, reject, signal)
    await removePartly(encoded, writing)
    await noteReplays(connection, encoded, signal)
    await takeBack(encoded, writing)
    return countMessages(encoded.messages, encoded.ranges, encoded.rejected)
  }

  return {
    logNumber,
    encode: (batch: RecordBatch) => encode(batch, logNumber, rooms.pop()),
    release({ lines: { bytes } }) {
      if (rooms.length < roomsMax && bytes.buffer.byteLength <= roomBytesMax) rooms.push(Buffer.from(bytes.buffer))
    },
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = write(encoded, reject, signal)
      underWay = writing.catch(() => undefined)
      return await writing
    },
    classify,
    async close() {
      closed = true
      await underWay
    },
  }
}

/** Registers the formats of the batch, and rejects the messages of those that are refused. */
async function rejectFormats(encoded: EncodedBatch, formats: Formats, signal: AbortSignal): Promise<void> {
  const { rejected } = encoded
  const wanted = encoded.formats.filter(({ messages }) => messages.some(message => !rejected.has(message)))
  const refused = wanted.length === 0 ? undefined : await formats.admit(wanted, signal)
  if (refused === undefined || refused.size === 0) return
  for (const { format, messages } of wanted) {
    const refusal = refused.get(format)
    if (refusal === undefined) continue
    for (const message of messages) if (!rejected.has(message)) rejected.set(message, { message, ...refusal })
  }
}

/** @param written lines that are durable, or whose messages are rejected */
function unwrittenLines({ lines, rejected, stored }: EncodedBatch, written: ReadonlySet<number>): number[] {
  const unwritten: number[] = []
  for (let line = 0; line < lines.length; line++) {
    if (!rejected.has(lines.message[line]!) && !stored.has(line) && !written.has(line)) unwritten.push(line)
  }
  return unwritten
}
