// Rows that a removal takes from a replay which runs at the same time: one of the two notices, and writes them again.
//
// The writer that refuses a message removes its rows, and a replay of it stores the same rows under the same keys. Without transactions no look is one
// step with what follows from it. So each of the two leaves its trace first, and looks for that of the other afterwards:
//
//   removal: is it noted as replayed (first look)? no: delete; is it noted now (second look)? yes: write all its rows again
//   replay:  write the rows; note it; are they all there? no: write those that are missing
//
// When both have ended the rows are there, in whatever order the steps came:
//
// 1. The first look sees the note. Nothing is deleted.
// 2. The second look sees it, and the first did not. The removal writes again what it may have taken, whether or not the replay had ended by then.
// 3. Neither sees it. Then the delete was acknowledged before the second look was asked, the note became visible behind that look, and the replay asked
//    for its rows when the note was acknowledged: behind the delete. What it does not find it writes, and nothing takes that away any more, since a
//    removal whose first look comes later is of the first kind, and one whose second look does of the second.
//
// Both may write the same row: it has one key. What it rests on is that an acknowledged point is seen by every later query. What it leaves open is a
// removal that is killed, or whose delete lands after it was given up: README.md says so.

import { Outcome } from '../../transformers/record-batch.ts'
import { SinkError } from '../sink-error.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import type { Culprit } from './isolation.ts'
import { type Sending, writeLines } from './line-requests.ts'
import { linesOf } from './rejected-messages.ts'
import { replayedAmong } from './replays.ts'
import { storedLines } from './stored-lines.ts'

interface Looking extends Sending {
  readonly logNumber: number
  readonly atOnce: number
}

/**
 * The removal's second look. No signal ends it, only the time-outs of its requests; where it fails, the next write of the batch looks again.
 *
 * @returns what the server refuses by now: its message is a dead letter, and `sluice verify` misses the row
 */
export async function giveBack(encoded: EncodedBatch, { connection, sizes, logNumber }: Omit<Looking, 'signal'>): Promise<Culprit[]> {
  const { lines, removed } = encoded
  if (removed.size === 0) return []
  const replayed = await replayedAmong(connection, encoded, removed, logNumber)
  // All lines, since a delete takes more than the rows that were found before it: those that differ from one in the ordinal alone.
  const taken = [...replayed].flatMap(message => linesOf(lines, message))
  return await writeLines(encoded, taken, { connection, sizes })
}

/**
 * The replay's look behind its note, in a batch of replays.
 *
 * @throws SinkError (transient) where the server refuses by now what is missing: the next write of the batch rejects it
 */
export async function takeBack(encoded: EncodedBatch, { connection, sizes, ...rest }: Looking & { signal: AbortSignal }): Promise<void> {
  const { lines, originals, messages, rejected, stored } = encoded
  if (originals === undefined) return
  const wanted: number[] = []
  for (let line = 0; line < lines.length; line++) {
    const message = lines.message[line]!
    if (originals.has(message) && messages.outcome[message] === Outcome.stored && !rejected.has(message)) wanted.push(line)
  }
  const there = await storedLines(connection, encoded, wanted, rest)
  const missing = wanted.filter(line => !there.has(line))
  for (const line of missing) stored.delete(line)
  const refused = await writeLines(encoded, missing, { connection, sizes, signal: rest.signal })
  if (refused.length > 0) {
    throw new SinkError('transient', `${refused.length} rows of replayed messages were removed meanwhile, and InfluxDB refuses them now`, {
      cause: refused[0]!.error,
    })
  }
}
