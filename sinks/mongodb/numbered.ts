// Registries whose entries are numbered from 1, each number given once: whoever adds the next one has seen all before it.
//
// MongoDB without a replica set has no transactions, so adding is a compare-and-set: read all, decide, insert under the next number, which a unique
// index lets only one have; whoever comes second reads again and decides anew.

import { setTimeout as wait } from 'node:timers/promises'
import type { Collection, Document } from 'mongodb'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { rowFailure, type WriteError } from './errors.ts'

const attemptsMax = 500
const waitMsMax = 20
const duplicateKey = 11_000

/** Somebody else was faster. */
class NumberTaken extends Error {
  override readonly name = 'NumberTaken'
}

/**
 * All entries, in the order of their numbers. A scan may pass a place before its entry is inserted and still meet a later one; so where a number is
 * missing (which it also is when an operator has deleted one) it reads again, until nothing was added meanwhile.
 */
export async function readNumbered<Entry extends Document>(
  collection: Collection<Entry>,
  field: keyof Entry & string,
  signal?: AbortSignal,
): Promise<Entry[]> {
  let entries = await read()
  while (entries.length > 0 && highest(entries) !== entries.length) {
    const again = await read()
    if (highest(again) === highest(entries)) return again
    entries = again
  }
  return entries

  async function read(): Promise<Entry[]> {
    return (await collection
      .find({}, { sort: { [field]: 1 }, ...(signal === undefined ? {} : { signal }) })
      .toArray()) as unknown as Entry[]
  }
  function highest(some: readonly Entry[]): number {
    return nextNumber(some, field) - 1
  }
}

/** The number of the next entry. */
export function nextNumber<Entry>(entries: readonly Entry[], field: keyof Entry): number {
  return ((entries.at(-1)?.[field] as number | undefined) ?? 0) + 1
}

/**
 * Inserts the entries in their order, until one is there already.
 *
 * @throws NumberTaken where an entry is there, or its number
 */
export async function insertNumbered(
  connection: Connection,
  collection: string,
  entries: readonly Document[],
  signal?: AbortSignal,
): Promise<void> {
  const command = { insert: collection, documents: entries, ordered: true, writeConcern: { w: 'majority' } }
  const answer = await connection.command(command, signal)
  const [failure] = (answer['writeErrors'] as WriteError[] | undefined) ?? []
  if (failure?.code === duplicateKey) throw new NumberTaken()
  if (failure !== undefined) throw rowFailure(failure, `MongoDB did not insert into ${collection}`)
}

/**
 * Calls `attempt` until it returns something. It reads, decides and inserts; where somebody else was faster it is called again.
 *
 * @throws SinkError (transient) where that does not end
 */
export async function untilAdded<Result>(attempt: () => Promise<Result>, what: string, signal?: AbortSignal): Promise<Result> {
  for (let nth = 0; nth < attemptsMax; nth++) {
    signal?.throwIfAborted()
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof NumberTaken)) throw error
    }
    // What the other one has inserted may not be on a majority yet, and is not read until then.
    await wait(Math.random() * waitMsMax)
  }
  throw new SinkError('transient', `${what}: others were faster ${attemptsMax} times`)
}
