// Writes lines, and finds those that InfluxDB refuses among them.
//
// A request whose answer is 422 has stored the points that are right, or is about to, and says of the others how many they are and the reason of the
// first. The reason of a type conflict names measurement, field and type: lines that hold such a field are the candidates; where points were too old it
// names the newest of them, and all lines up to its instant are. The others
// are written again, which leaves them as they are and makes them durable; where none of them is dropped and there are as many candidates as
// points were dropped, all of those are culprits. Else, and for every other reason, the lines are halved. Points may also be in several shards, which
// refuse each for itself while the answer tells of one: so a number that was dropped is never taken for more than the least it says.

import type { Selection } from './bodies.ts'
import { conflictOf, mayHold } from './conflicts.ts'
import { isAboutData, type ResponseError } from './errors.ts'
import { nsOf } from './flux.ts'
import { keyOfLine } from './line-protocol.ts'

export interface Culprit {
  readonly line: number
  /** What the server said of it, or of another one that was refused together with it. */
  readonly error: ResponseError
}

/** The text of a line, for telling candidates. */
export type TextOf = (line: number) => string

/**
 * @param post resolves when these lines are durable; throws ResponseError
 * @returns the lines that were refused, in their order; all others are durable
 * @throws what `post` throws that is not about the lines
 */
export async function writeIsolating(
  selection: Selection,
  post: (selection: Selection) => Promise<void>,
  textOf: TextOf,
): Promise<Culprit[]> {
  if (selection.length === 0) return []
  const error = await refusalOf(selection, post)
  if (error === undefined) return []
  if (selection.length === 1) return [{ line: selection[0]!, error }]
  const dropped = droppedOf(error)
  if (dropped >= selection.length) return selection.map(line => ({ line, error }))

  const candidates = new Set(candidatesOf(error, selection, textOf))
  if (candidates.size === 0 || candidates.size === selection.length) {
    const middle = selection.length >>> 1
    const first = await writeIsolating(selection.slice(0, middle), post, textOf)
    return [...first, ...(await writeIsolating(selection.slice(middle), post, textOf))]
  }
  const others = await writeIsolating(
    selection.filter(line => !candidates.has(line)),
    post,
    textOf,
  )
  const some = selection.filter(line => candidates.has(line))
  const found = dropped - others.length >= some.length ? some.map(line => ({ line, error })) : await writeIsolating(some, post, textOf)
  return [...others, ...found].sort((one, other) => one.line - other.line)
}

async function refusalOf(selection: Selection, post: (selection: Selection) => Promise<void>): Promise<ResponseError | undefined> {
  try {
    await post(selection)
    return undefined
  } catch (error) {
    if (isAboutData(error)) return error
    throw error
  }
}

/** The end of the sentence, where nothing is quoted that a device has sent: only what the bucket drops for its age is said with the bucket's id. */
const droppedAtEnd = / dropped=(\d+)(?: for database: \w+ for retention policy: \w+)?$/

/** How many points were dropped at least. */
function droppedOf({ status, said }: ResponseError): number {
  const dropped = status === 422 ? droppedAtEnd.exec(said)?.[1] : undefined
  return dropped === undefined ? 1 : Number(dropped)
}

/** The last words about the newest of the points that were dropped for their age. What stands before, the series, is a device's. */
const newestAtEnd =
  / at (\S+Z) dropped because it violates a Retention Policy Lower Bound at \S+ dropped=\d+ for database: \w+ for retention policy: \w+$/

/** Lines that may hold the field and type that the reason tells, or are as old as it tells; some of them may be right. */
function candidatesOf(error: ResponseError, selection: Selection, textOf: TextOf): number[] {
  const newest = newestAtEnd.exec(error.said)?.[1]
  if (newest !== undefined) {
    const newestNs = nsOf(newest)
    return selection.filter(line => keyOfLine(textOf(line)).ns <= newestNs)
  }
  const conflict = conflictOf(error)
  return conflict === undefined ? [] : selection.filter(line => mayHold(textOf(line), conflict))
}
