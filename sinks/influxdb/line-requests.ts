// Lines on their way: in compressed requests, some at once, until each is durable or known to be refused.

import { type BodySizes, bodyAtOnce, bodyOf, cutBodies, eachAtOnce, type Selection, textOf } from './bodies.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { type Culprit, writeIsolating } from './isolation.ts'

export interface Sending {
  readonly connection: Connection
  readonly sizes: BodySizes
  readonly signal?: AbortSignal | undefined
}

/** @returns what the server refuses; all other lines of the selection are durable */
export async function writeLines(
  { lines }: EncodedBatch,
  selection: Selection,
  { connection, sizes, signal }: Sending,
): Promise<Culprit[]> {
  const culprits: Culprit[] = []
  let begun = 0
  await eachAtOnce(cutBodies(lines, selection, sizes), sizes.requestsInFlight, async body => {
    const post = async (selection: Selection): Promise<void> => {
      signal?.throwIfAborted()
      // The first ones keep the server busy while the caller encodes the next batch, during which nothing that is awaited comes back.
      const text = begun++ < sizes.requestsInFlight ? bodyAtOnce(lines, selection) : await bodyOf(lines, selection)
      await connection.write(connection.bucket, text, signal)
    }
    culprits.push(...(await writeIsolating(body, post, line => textOf(lines, line))))
  })
  return culprits.sort((one, other) => one.line - other.line)
}
