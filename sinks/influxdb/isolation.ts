// Writes lines, and finds those that InfluxDB refuses.
//
// With the answer 422 InfluxDB stores the valid points of a request, and says how many points it dropped and why it dropped the first. If points were
// too old, it names the newest of these: all lines up to its time are candidates. The other lines are written again, which does not change them and
// makes them durable. If none of them is dropped, and there are as many candidates as dropped points, then all candidates are refused lines. Otherwise,
// and for every other reason, the lines are halved. Points may be in several shards, each of which refuses on its own, while the answer reports only
// one: so the number of dropped points is only a lower bound.

import { nsOf } from './connection.ts'
import { isAboutData, type ResponseError } from './errors.ts'

/** Indexes of lines, in ascending order. */
export type Selection = readonly number[]

export interface Culprit {
  readonly line: number
  /** What the server said about it, or about another line that was refused with it. */
  readonly error: ResponseError
}

/**
 * @param post resolves when these lines are durable; throws ResponseError
 * @param nsOfLine the time of a line, nanoseconds since 1970
 * @returns the refused lines, in their order; all others are durable
 * @throws errors of `post` that are not about the lines
 */
export async function writeIsolating(
  selection: Selection,
  post: (selection: Selection) => Promise<void>,
  nsOfLine: (line: number) => bigint,
): Promise<Culprit[]> {
  if (selection.length === 0) return []
  const error = await refusalOf(selection, post)
  if (error === undefined) return []
  const dropped = droppedOf(error)
  if (dropped >= selection.length) return selection.map(line => ({ line, error }))

  const isolate = (some: Selection): Promise<Culprit[]> => writeIsolating(some, post, nsOfLine)
  const newestNs = newestOf(error)
  const old = newestNs === undefined ? [] : selection.filter(line => nsOfLine(line) <= newestNs)
  if (newestNs === undefined || old.length === 0 || old.length === selection.length) {
    const middle = selection.length >>> 1
    const first = await isolate(selection.slice(0, middle))
    return [...first, ...(await isolate(selection.slice(middle)))]
  }
  const others = await isolate(selection.filter(line => nsOfLine(line) > newestNs))
  const found = dropped - others.length >= old.length ? old.map(line => ({ line, error })) : await isolate(old)
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

/** The number at the end of the sentence. Text from a device comes only before it; only points that are too old are followed by the bucket's id. */
const droppedAtEnd = / dropped=(\d+)(?: for database: \w+ for retention policy: \w+)?$/

/** The least number of points that were dropped, at least one. */
function droppedOf({ status, said }: ResponseError): number {
  const dropped = status === 422 ? droppedAtEnd.exec(said)?.[1] : undefined
  return Math.max(1, Number(dropped ?? 1))
}

/** The end of the sentence about points that are too old, with the time of the newest. The series before it contains text from a device. */
const newestAtEnd =
  / at (\S+Z) dropped because it violates a Retention Policy Lower Bound at \S+ dropped=\d+ for database: \w+ for retention policy: \w+$/

/** The time of the newest point that was too old, nanoseconds since 1970; undefined if that is not the reason. */
function newestOf({ said }: ResponseError): bigint | undefined {
  const newest = newestAtEnd.exec(said)?.[1]
  return newest === undefined ? undefined : nsOf(newest)
}
