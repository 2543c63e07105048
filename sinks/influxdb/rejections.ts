// Messages that are rejected: first it is seen whether they are stored, then come their dead letters, then none of their rows stays.

import { unlessAborted } from '../../config/postgres/aborting.ts'
import type { Reject, Rejection } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import { eachAtOnce, textOf } from './bodies.ts'
import type { KnownConflicts } from './conflicts.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch, EncodedLines } from './encoded-batch.ts'
import { classify, isAboutData, namesReason, type ResponseError } from './errors.ts'
import type { Culprit } from './isolation.ts'
import { writeProof } from './registry.ts'
import { removeMessage, writeOwed } from './removal.ts'
import { agedLines, beyondRetention, rejectAged } from './retention.ts'
import type { Schema } from './schema.ts'
import { positionOf, storedLines } from './stored-lines.ts'

interface Writing {
  readonly connection: Connection
  readonly schema: Schema
  readonly logNumber: number
  readonly signal: AbortSignal
}

/** Rejects the messages that are older than the bucket keeps, as it is set now, but for those that were stored while they were not. */
export async function rejectBeyond(encoded: EncodedBatch, { connection, schema, ...rest }: Writing): Promise<void> {
  if (agedLines(encoded, schema.keptSeconds(), Date.now()).length === 0) return
  await schema.readAgain(rest.signal)
  const aged = agedLines(encoded, schema.keptSeconds(), Date.now())
  const stored = await storedLines(connection, encoded, aged, rest)
  for (const line of stored) encoded.stored.add(line)
  rejectAged(
    encoded,
    aged.filter(line => !stored.has(line)),
    schema.keptSeconds(),
  )
}

/**
 * Rejects the messages of lines that the server refuses, but for lines that it has from before.
 *
 * @throws SinkError, where it refuses what is known to be good as well
 */
export async function rejectCulprits(
  encoded: EncodedBatch,
  culprits: readonly Culprit[],
  { connection, schema, conflicts, ...rest }: Writing & { conflicts: KnownConflicts },
): Promise<void> {
  if (culprits.length === 0) return
  const unnamed = culprits.find(({ error }) => !namesReason(error))
  if (unnamed !== undefined) await proveGoodIsTaken(connection, unnamed.error, rest.signal)
  const refusedLines = new Set(culprits.map(({ line }) => line))
  const stored = await storedLines(connection, encoded, [...refusedLines], rest)
  for (const line of stored) encoded.stored.add(line)
  const { lines, rejected, partly } = encoded
  for (const { line, error } of culprits) {
    conflicts.remember(error)
    const message = lines.message[line]!
    if (rejected.has(message) || stored.has(line)) continue
    const [first, end] = linesOf(lines, message)
    for (let other = first; other < end; other++) if (!refusedLines.has(other) || stored.has(other)) partly.add(message)
    const fault = /retention policy/i.test(error.said) ? beyondRetention(schema.keptSeconds()) : refusedBy(error)
    rejected.set(message, { message, record: lines.record[line]!, ...fault })
  }
}

/** A harmless point goes the way that the line went. Is it refused too, then it is not the line. */
async function proveGoodIsTaken(connection: Connection, refusal: ResponseError, signal: AbortSignal): Promise<void> {
  try {
    await writeProof(connection, signal)
  } catch (error) {
    if (!isAboutData(error) && classify(error) === 'transient') throw error
    throw new SinkError(classify(refusal), `${refusal.message}; nor is a point taken that is known to be good`, { cause: refusal })
  }
}

function refusedBy({ status, said }: ResponseError): Pick<Rejection, 'rule' | 'reason' | 'hint'> {
  return {
    rule: 'store-refused',
    reason: `InfluxDB refuses it (${status}): ${said.slice(0, 1000)}`,
    hint: 'a field keeps the type that it had first, in each shard of its measurement: send the same type always, or use another key',
  }
}

/** Has the dead letters made durable that are not yet. */
export async function acknowledge({ rejected, acknowledged }: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<void> {
  if (rejected.size === acknowledged.size) return
  const fresh: Rejection[] = [...rejected.values()].filter(({ message }) => !acknowledged.has(message))
  fresh.sort((one, other) => one.message - other.message)
  // Given up, the dead letters go on being written, and nobody waits for them.
  await unlessAborted(reject(fresh), signal)
  for (const { message } of fresh) acknowledged.add(message)
}

/** Deletes the other rows of messages that were refused while they were written. */
export async function removePartly(
  encoded: EncodedBatch,
  { connection, logNumber, atOnce, signal }: Omit<Writing, 'schema'> & { atOnce: number },
): Promise<void> {
  const { lines, partly, owed } = encoded
  await writeOwed(connection, owed)
  const going = new Set([...partly].map(message => positionOf(encoded, logNumber, message)))
  await eachAtOnce([...partly], atOnce, async message => {
    const [first, end] = linesOf(lines, message)
    const texts = Array.from({ length: end - first }, (_, nth) => textOf(lines, first + nth))
    await removeMessage(connection, texts, { going, owed, signal })
    partly.delete(message)
  })
}

/** The lines of a message: the first, and behind the last. */
function linesOf(lines: EncodedLines, message: number): [first: number, end: number] {
  const first = lines.message.subarray(0, lines.length).indexOf(message)
  let end = first
  while (end < lines.length && lines.message[end] === message) end++
  return [first, end]
}
