// The MongoDB sink: rows keyed by their position, by the protocol in README.md.

import { setMaxListeners } from 'node:events'
import { Outcome, type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import type { LogIdentity } from '../log-registry.ts'
import type { MessageCounts, Reject, Sink } from '../sink.ts'
import type { Connection } from './connection.ts'
import { encode } from './encode.ts'
import type { EncodedBatch, EncodedTable } from './encoded-batch.ts'
import { classify, explained } from './errors.ts'
import { openFormats } from './formats.ts'
import { insertRows, type Target } from './insert.ts'
import { registerLog } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { acknowledge, removeLeftovers } from './rejections.ts'
import { noteReplays } from './replays.ts'
import { prepareStore, probe } from './schema.ts'
import { settle } from './settle.ts'
import { checkReplays } from './taken-rows.ts'

export { classify } from './errors.ts'

export interface MongoSinkOptions extends LogIdentity {
  /** Opened by the caller, who closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Told what the user may not make, and what then happens; the sink works without. */
  readonly onNotice?: (sentence: string) => void
}

/**
 * Opens a sink: makes the indexes that are missing where it can, and registers the log.
 *
 * @throws SinkError (systemic) where the store belongs to another writer or to another log of this name, or is none of ours
 * @throws the driver's errors; `classify` says what they mean
 */
export async function openSink({
  connection,
  options,
  onNotice = () => undefined,
  ...identity
}: MongoSinkOptions): Promise<Sink<EncodedBatch>> {
  let logNumber: number
  try {
    await prepareStore(connection, onNotice)
    logNumber = await registerLog(connection, identity)
  } catch (error) {
    throw explained(error)
  }
  const formats = openFormats(connection, options)
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    const { messages, ranges, rejected, originals } = encoded
    const targets = await resolveTargets(encoded, signal)
    await acknowledge(encoded, reject, signal)
    const { writesInFlight } = options
    const inserting = { connection, targets, writesInFlight, probe: (signal: AbortSignal) => probe(connection, signal), signal }
    await removeLeftovers(encoded, inserting)
    const errors = await insertRows({ ...inserting, leftOut: rejected })
    const { duplicates, rejections } = await settle(connection, targets, errors, rejected, signal)
    if (rejections.length > 0) {
      for (const rejection of rejections) {
        rejected.set(rejection.message, rejection)
        encoded.leftovers.add(rejection.message)
      }
      await acknowledge(encoded, reject, signal)
      await removeLeftovers(encoded, inserting)
    }
    if (originals !== undefined) {
      const has = (message: number): boolean =>
        originals.has(message) && messages.outcome[message] === Outcome.stored && !rejected.has(message)
      await noteReplays(connection, originals, has, signal)
      await checkReplays(inserting, has)
    }
    return countMessages(messages, ranges, rejected, undefined, duplicates)
  }

  /** The collections of the batch that have rows to be stored, or to be deleted. Messages whose format gets none are rejected. */
  async function resolveTargets({ tables, rejected, leftovers }: EncodedBatch, signal: AbortSignal): Promise<Target[]> {
    const isWanted = ({ format, rowMessage }: EncodedTable): boolean =>
      format !== senmlFormat && rowMessage.some(message => !rejected.has(message) || leftovers.has(message))
    const { names, refused } = await formats.resolve(tables.filter(isWanted), signal)
    const targets: Target[] = []
    for (const table of tables) {
      const collection = table.format === senmlFormat ? senmlFormat : names.get(table.format)
      if (collection !== undefined) targets.push({ table, collection })
      const refusal = refused.get(table.format)
      if (refusal === undefined) continue
      for (const message of table.rowMessage) if (!rejected.has(message)) rejected.set(message, { message, ...refusal })
    }
    return targets
  }

  /** Every request of the write has a signal of its own to listen to: the caller's may be shared by many. */
  async function writeAbortably(encoded: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    signal.throwIfAborted()
    const aborted = new AbortController()
    setMaxListeners(0, aborted.signal)
    const onAbort = (): void => aborted.abort(signal.reason)
    signal.addEventListener('abort', onAbort)
    try {
      return await write(encoded, reject, aborted.signal)
    } catch (error) {
      formats.forget()
      signal.throwIfAborted()
      throw explained(error)
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  return {
    logNumber,
    encode: (batch: RecordBatch) => encode(batch, logNumber),
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = writeAbortably(encoded, reject, signal)
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
