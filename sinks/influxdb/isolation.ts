// Writes lines, and finds those that InfluxDB refuses.
//
// With the answer 422 InfluxDB stores the valid points of a request, and says how many points it dropped and why it dropped the first. If the reason
// is a type conflict, it names the measurement, field and type: lines that contain such a field are the candidates. If points were too old, it names
// the newest of these: all lines up to its time are candidates. The other lines are written again, which does not change them and makes them durable.
// If none of them is dropped, and there are as many candidates as dropped points, then all candidates are refused lines. Otherwise, and for every
// other reason, the lines are halved. Points may be in several shards, each of which refuses on its own, while the answer reports only one: so the
// number of dropped points is only a lower bound.

import { nsOf } from './connection.ts'
import { type Conflict, conflictOf, isAboutData, mayHold, type ResponseError } from './errors.ts'
import { nsOfLine } from './points.ts'

/** Indexes of lines, in ascending order. */
export type Selection = readonly number[]

export interface Culprit {
  readonly line: number
  /** What the server said about it, or about another line that was refused with it. */
  readonly error: ResponseError
}

/** The text of a line, to find candidates. */
export type TextOf = (line: number) => string

/** Most conflicts that are remembered. Limited, since devices name their fields. */
const knownMax = 32

/**
 * @param post resolves when these lines are durable; throws ResponseError
 * @param known conflicts that the server has reported before, to which it adds. Lines that may contain one are sent separately, since sending the
 *   others a second time takes nearly as long as sending all (10 % of 10,000 lines: 1.7 times the time)
 * @returns the refused lines, in their order; all others are durable
 * @throws errors of `post` that are not about the lines
 */
export async function writeIsolating(
  selection: Selection,
  post: (selection: Selection) => Promise<void>,
  textOf: TextOf,
  known: Conflict[] = [],
): Promise<Culprit[]> {
  const suspects = new Set(known.length === 0 ? [] : linesWith(known, selection, textOf))
  const others = await isolate(
    { post, textOf, known },
    selection.filter(line => !suspects.has(line)),
  )
  const found = await isolate({ post, textOf, known }, [...suspects])
  return found.length === 0 ? others : [...others, ...found].sort((one, other) => one.line - other.line)
}

interface Isolating {
  readonly post: (selection: Selection) => Promise<void>
  readonly textOf: TextOf
  readonly known: Conflict[]
}

async function isolate(parts: Isolating, selection: Selection): Promise<Culprit[]> {
  if (selection.length === 0) return []
  const { post, textOf, known } = parts
  const error = await refusalOf(selection, post)
  if (error === undefined) return []
  remember(error, known)
  if (selection.length === 1) return [{ line: selection[0]!, error }]
  const dropped = droppedOf(error)
  if (dropped >= selection.length) return selection.map(line => ({ line, error }))

  const candidates = new Set(candidatesOf(error, selection, textOf))
  if (candidates.size === 0 || candidates.size === selection.length) {
    const middle = selection.length >>> 1
    const first = await isolate(parts, selection.slice(0, middle))
    return [...first, ...(await isolate(parts, selection.slice(middle)))]
  }
  const others = await isolate(
    parts,
    selection.filter(line => !candidates.has(line)),
  )
  const some = selection.filter(line => candidates.has(line))
  const found = dropped - others.length >= some.length ? some.map(line => ({ line, error })) : await isolate(parts, some)
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

/** The least number of points that were dropped. */
function droppedOf({ status, said }: ResponseError): number {
  const dropped = status === 422 ? droppedAtEnd.exec(said)?.[1] : undefined
  return dropped === undefined ? 1 : Number(dropped)
}

/** The end of the sentence about points that are too old, with the time of the newest. The series before it contains text from a device. */
const newestAtEnd =
  / at (\S+Z) dropped because it violates a Retention Policy Lower Bound at \S+ dropped=\d+ for database: \w+ for retention policy: \w+$/

/** Lines that may contain the field and type of the reason, or that are as old as it says; some of them may be valid. */
function candidatesOf(error: ResponseError, selection: Selection, textOf: TextOf): number[] {
  const newest = newestAtEnd.exec(error.said)?.[1]
  if (newest !== undefined) {
    const newestNs = nsOf(newest)
    return selection.filter(line => nsOfLine(textOf(line)) <= newestNs)
  }
  const conflict = conflictOf(error)
  return conflict === undefined ? [] : linesWith([conflict], selection, textOf)
}

function linesWith(conflicts: readonly Conflict[], selection: Selection, textOf: TextOf): number[] {
  return selection.filter(line => {
    const text = textOf(line)
    return conflicts.some(conflict => mayHold(text, conflict))
  })
}

function remember(error: ResponseError, known: Conflict[]): void {
  const conflict = conflictOf(error)
  if (conflict === undefined) return
  const { measurement, field, type } = conflict
  if (known.some(one => one.measurement === measurement && one.field === field && one.type === type)) return
  if (known.push(conflict) > knownMax) known.shift()
}
