// Messages that are rejected: first it is seen whether they are stored, then come their dead letters, then none of their rows stays.

import { unlessAborted } from '../../config/aborting.ts'
import type { Reject, Rejection } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import { type BodySizes, textOf } from './bodies.ts'
import { conflictOf, type KnownConflicts } from './conflicts.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { classify, isAboutData, isBeyondRetention, namesReason, type ResponseError } from './errors.ts'
import type { Fault } from './faults.ts'
import type { Culprit } from './isolation.ts'
import { keyOfLine } from './line-protocol.ts'
import { writeProof } from './registry.ts'
import { linesOf, rejectFor } from './rejected-messages.ts'
import { removePoints, writeOwed } from './removal.ts'
import { replayedAmong } from './replays.ts'
import { agedLines, beyondRetention, rejectAged } from './retention.ts'
import type { Schema } from './schema.ts'
import { positionOf, storedLines } from './stored-lines.ts'
import { giveBack } from './taken-rows.ts'

interface Writing {
  readonly connection: Connection
  readonly schema: Schema
  readonly logNumber: number
  readonly sizes: BodySizes
  /** So many requests are under way at once. */
  readonly atOnce: number
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
  await believe(connection, culprits, rest.signal)
  // By what was known of it they are not too old.
  if (culprits.some(({ error }) => isBeyondRetention(error))) await schema.readAgain(rest.signal)
  const refusedLines = new Set(culprits.map(({ line }) => line))
  const stored = await storedLines(connection, encoded, [...refusedLines], rest)
  for (const line of stored) encoded.stored.add(line)
  const absent = new Set([...refusedLines].filter(line => !stored.has(line)))
  for (const { line, error } of culprits) {
    conflicts.remember(error)
    if (stored.has(line)) continue
    rejectFor(encoded, line, absent, isBeyondRetention(error) ? beyondRetention(schema.keptSeconds()) : refusedBy(error))
  }
  await conflicts.note(rest.signal)
}

/** Where a refusal says no reason a harmless point goes the way that the line went. Is it refused too, then it is not the line. */
async function believe(connection: Connection, culprits: readonly Culprit[], signal: AbortSignal): Promise<void> {
  const refusal = culprits.find(({ error }) => !namesReason(error))?.error
  if (refusal === undefined) return
  try {
    await writeProof(connection, signal)
  } catch (error) {
    if (!isAboutData(error) && classify(error) === 'transient') throw error
    throw new SinkError(classify(refusal), `${refusal.message}; nor is a point taken that is known to be good`, { cause: refusal })
  }
}

function refusedBy(error: ResponseError): Fault {
  const fault = { rule: 'store-refused', reason: `InfluxDB refuses it (${error.status}): ${error.said.slice(0, 1000)}` }
  if (conflictOf(error) === undefined) return fault
  const hint = 'a field keeps the type that it had first, in each shard of its measurement: send the same type always, or use another key'
  return { ...fault, hint }
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

/**
 * Deletes the rows that are there of messages that were refused. Mostly there are none: the culprit was sent before the others. Rows of a message that
 * was replayed since are its own: an earlier attempt may have failed between the dead letter and the deletion, and what was replayed has the same keys.
 */
export async function removePartly(encoded: EncodedBatch, { connection, sizes, ...rest }: Omit<Writing, 'schema'>): Promise<void> {
  const { lines, partly, owed, removed } = encoded
  await writeOwed(connection, owed)
  if (partly.size === 0) return
  const going = new Set([...partly].map(message => positionOf(encoded, rest.logNumber, message)))
  const all = [...partly].flatMap(message => linesOf(lines, message))
  const there = await storedLines(connection, encoded, all, rest)
  const found = new Set([...there].map(line => lines.message[line]!))
  const replayed = await replayedAmong(connection, encoded, found, rest.logNumber, rest.signal)
  const left = [...there].filter(line => !replayed.has(lines.message[line]!))
  // Before they are: a delete that fails may yet be done.
  for (const line of left) removed.add(lines.message[line]!)
  const keys = left.map(line => keyOfLine(textOf(lines, line)))
  await removePoints(connection, keys, { going, owed, ...rest })
  await believe(connection, await giveBack(encoded, { connection, sizes, ...rest }), rest.signal)
  partly.clear()
  removed.clear()
}
