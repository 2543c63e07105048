// One attempt to write a batch, by the protocol in README.md.

import { unlessAborted } from '../../config/aborting.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import type { MessageCounts, Reject, Rejection } from '../sink.ts'
import type { Connection } from './connection.ts'
import { dateBytes } from './date.ts'
import type { Days, NotedDay } from './days.ts'
import type { EncodedBatch, EncodedTable } from './encoded-batch.ts'
import type { Formats } from './formats.ts'
import type { Pace } from './in-flight.ts'
import { positionsOf, replayedAmong, replayStatements } from './replays.ts'
import { openRowWriter, type Statement } from './row-writer.ts'
import { checkThere, giveBack } from './taken-rows.ts'

export interface BatchParts {
  readonly connection: Connection
  readonly formats: Formats
  readonly days: Days
  readonly pace: Pace
  readonly encoded: EncodedBatch
  readonly reject: Reject
  readonly signal: AbortSignal
  /** Later than that of every attempt before. Microseconds since 1970. */
  readonly timestampUs: number
}

/** Everything of the batch is durable when it resolves, and nothing is known about it when it rejects. */
export async function storeBatch({
  connection,
  formats,
  days,
  pace,
  encoded,
  reject,
  signal,
  timestampUs,
}: BatchParts): Promise<MessageCounts[]> {
  const { messages, ranges, rejected, unremoved, replays } = encoded
  await rejectFormats(formats, encoded, signal)
  // What is known to be refused is a dead letter before the first row of the batch can be seen.
  await acknowledge(encoded, reject, signal)
  const tables = encoded.tables.filter(({ requests }) => requests.length > 0)
  const client = await unlessAborted(connection.client(), signal)
  const writer = openRowWriter(connection, client, pace, timestampUs, signal)
  const unwritten = days.unwritten(encoded.days)
  await writer.execute(dayStatements(connection, unwritten))
  for (const rejection of await writer.insert(tables, encoded)) {
    rejected.set(rejection.message, rejection)
    unremoved.add(rejection.message)
  }
  await acknowledge(encoded, reject, signal)
  if (unremoved.size > 0) {
    const replayed = await replayedAmong(connection, positionsOf(tables, unremoved), pace, signal)
    const deletedUs = await writer.remove(tables, new Set([...unremoved].filter(message => !replayed.has(message))))
    await giveBack({ connection, client, pace, tables }, unremoved, deletedUs)
    unremoved.clear()
  }
  if (replays !== undefined) {
    const stored = new Map([...replays].filter(([message]) => !rejected.has(message)))
    // Nothing is noted that is under a tombstone.
    await checkThere(writer, tables, stored)
    await writer.execute(replayStatements(connection, stored))
    await checkThere(writer, tables, stored)
  }
  days.remember(unwritten)
  return countMessages(messages, ranges, rejected)
}

/** Makes the tables of the batch's formats. Messages whose format gets none are rejected. */
async function rejectFormats(formats: Formats, { tables, rejected }: EncodedBatch, signal: AbortSignal): Promise<void> {
  const isWanted = ({ format, requests }: EncodedTable): boolean =>
    format !== senmlFormat && requests.some(request => request.some(row => !rejected.has(row.message)))
  const refused = await formats.resolve(tables.filter(isWanted), signal)
  if (refused.size === 0) return
  for (const { format, requests } of tables) {
    const refusal = refused.get(format)
    if (refusal === undefined) continue
    for (const request of requests) {
      for (const { message } of request) if (!rejected.has(message)) rejected.set(message, { message, ...refusal })
    }
  }
}

/** Has the dead letters made durable that are not yet. */
async function acknowledge({ rejected, acknowledged }: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<void> {
  if (rejected.size === acknowledged.size) return
  const rejections: Rejection[] = [...rejected.values()].filter(({ message }) => !acknowledged.has(message))
  rejections.sort((one, other) => one.message - other.message)
  await unlessAborted(reject(rejections), signal)
  for (const { message } of rejections) acknowledged.add(message)
}

/** A day may be written whose only rows are refused: a reader then finds it empty. */
function dayStatements(connection: Connection, days: readonly NotedDay[]): Statement[] {
  if (days.length === 0) return []
  const ofChannel = `INSERT INTO ${connection.table('sluice_channel_days')} (channel, format, day) VALUES (?, ?, ?)`
  const ofPublisher = `INSERT INTO ${connection.table('sluice_publisher_days')} (channel, publisher, format, day) VALUES (?, ?, ?, ?)`
  const statements: Statement[] = []
  let last: NotedDay | undefined
  for (const noted of days) {
    const { channel, publisher, format, day } = noted
    const bytes = dateBytes(day)
    // The publishers of a channel follow each other often enough to save most of what comes again, which does no harm.
    if (last?.channel !== channel || last.format !== format || last.day !== day)
      statements.push({ query: ofChannel, params: [channel, format, bytes] })
    statements.push({ query: ofPublisher, params: [channel, publisher, format, bytes] })
    last = noted
  }
  return statements
}
