// A question to the embedded database, in pieces: it is one backend that cannot be interrupted, and publishers wait while it works.
//
// A piece is a range of time that holds so many rows of the index, whatever the filters leave of them. How many follows from how long the database worked
// for the pieces before. One piece is under way at a time, and questions take turns.

import type { SqlRow } from '../../config/postgres/database.ts'
import { openQueue } from '../../config/postgres/turns.ts'
import { isFiltered } from '../matching.ts'
import type { AggregateQuery, Direction, PageQuery, RowKey, Selection } from '../query.ts'
import { type Bucket, type Grouped, groupsMax, QueryTooLargeError, type Row } from '../reader.ts'
import { sourceOf } from './conditions.ts'
import { mergeBuckets, mergeSeries } from './merge.ts'
import { type BucketColumns, type SeriesColumns, toRows } from './rows.ts'
import { selectCount, selectPage, selectPieceBuckets, selectPieceEnd, selectPieceSeries, selectRows } from './select.ts'
import type { Statement } from './statement.ts'

/** @param onTurn called when the statement begins, behind what waited before it */
export type Run = <Columns extends SqlRow>(statement: Statement, signal: AbortSignal, onTurn?: () => void) => Promise<Columns[]>

/** A reader's questions, of a format whose table is known. */
export interface Questions {
  read(query: PageQuery, table: string | undefined, signal: AbortSignal): Promise<Row[]>
  count(selection: Selection, table: string | undefined, max: number, signal: AbortSignal): Promise<number>
  latest(query: PageQuery, table: string | undefined, signal: AbortSignal): Promise<Grouped<Row>>
  /** @throws DatabaseError 22003 for a sum beyond the range of a double */
  aggregate(query: AggregateQuery, signal: AbortSignal): Promise<Grouped<Bucket>>
}

/** Rows of a piece. */
interface Pace {
  readonly first: number
  readonly least: number
  readonly most: number
}

/** What the database should work for a piece, with both of its statements; the next one is made for it. */
const pieceMs = 20
const recordPace: Pace = { first: 1000, least: 250, most: 10_000 }
/** Where payloads are looked into, which may have 256 KiB each. */
const payloadPace: Pace = { first: 32, least: 8, most: 250 }
/** Of a piece's names and payloads, and of one row more: nothing else bounds a name, and rows of 20 KB may lie behind many small ones. */
const pieceBytesMax = 1024 * 1024
/** Records at one instant, which are of one piece: beyond so many, or so much of their names, they are not made into groups. */
const instantMax = { rows: 50_000, bytes: 4 * 1024 * 1024 } as const
/** A page without filters is one statement, with so many rows to give, which may be large, and so many with those passed over. */
const pageRowsMax = { given: 128, all: 2000 } as const
/** Rows that are looked up by their keys at once, large ones too. */
const lookedUpMax = 32

/** @param rowsMax of a piece, and of what is one statement */
export function inPieces(run: Run, rowsMax = Number.POSITIVE_INFINITY): Questions {
  const inTurn = openQueue(0)
  /** Of the piece under way. */
  let workedMs = 0

  /** A statement of a piece. The time until its turn does not count, or pieces would be the smaller the less often readers have one. */
  const runPiece: Run = async (statement, signal) => {
    let begunMs = Number.POSITIVE_INFINITY
    try {
      return await run(statement, signal, () => {
        begunMs = performance.now()
      })
    } finally {
      workedMs += Math.max(0, performance.now() - begunMs)
    }
  }

  /**
   * @param work on one piece, in the direction; resolves with whether it wants the next
   * @throws QueryTooLargeError where instants are bounded, and one holds too much
   */
  async function walk(
    selection: Selection,
    direction: Direction,
    table: string | undefined,
    signal: AbortSignal,
    work: (piece: Selection) => Promise<boolean>,
    boundsInstants = false,
  ): Promise<void> {
    const { unitNs } = sourceOf(table)
    const pace = selection.payload.length > 0 ? payloadPace : recordPace
    let left = selection
    let rows = Math.min(pace.first, rowsMax)
    for (let isMore = true; isMore; ) {
      const piece = async (): Promise<boolean> => {
        workedMs = 0
        const [end] = await runPiece<{ time: bigint }>(selectPieceEnd(left, direction, table, { rows, bytes: pieceBytesMax }), signal)
        if (end === undefined) {
          await work(left)
          return false
        }
        // The rows of one instant are of one piece, so that the next begins behind a time.
        const endNs = end.time * unitNs
        if (boundsInstants) {
          const instant = { ...left, fromNs: endNs, toNs: endNs + unitNs }
          const [beyond] = await runPiece<{ time: bigint }>(selectPieceEnd(instant, direction, table, instantMax), signal)
          if (beyond !== undefined) throw tooMuchAtOnce(endNs)
        }
        const wantsMore = await work(direction === 'desc' ? { ...left, fromNs: endNs } : { ...left, toNs: endNs + unitNs })
        left = direction === 'desc' ? { ...left, toNs: endNs } : { ...left, fromNs: endNs + unitNs }
        const factor = Math.min(Math.max(pieceMs / workedMs, 0.25), 2)
        rows = Math.min(Math.max(Math.round(factor * rows), pace.least), pace.most, rowsMax)
        return wantsMore
      }
      isMore = await inTurn(piece, { signal })
    }
  }

  async function found<Item>(statement: Statement, signal: AbortSignal): Promise<Item[]> {
    const [row] = await runPiece<{ found: string }>(statement, signal)
    return JSON.parse(row!.found) as Item[]
  }

  return {
    async read(query, table, signal) {
      const { direction, after } = query
      const readPart = async (ask: Run, part: PageQuery): Promise<Row[]> =>
        toRows(await ask(selectPage(part, table), signal), table, query.channel)
      const isShort = query.limit <= pageRowsMax.given && query.offset + query.limit <= Math.min(pageRowsMax.all, rowsMax)
      if (isShort && !isFiltered(query)) return await readPart(run, query)
      const rows: Row[] = []
      let { offset } = query
      await walk(after === undefined ? query : notBefore(query, after, table), direction, table, signal, async piece => {
        const ofPiece = { ...query, fromNs: piece.fromNs, toNs: piece.toNs }
        if (offset > 0) {
          const [counted] = await runPiece<{ total: bigint }>(selectCount(ofPiece, table, offset), signal)
          const passed = Number(counted!.total)
          if (passed <= offset) {
            offset -= passed
            return true
          }
        }
        rows.push(...(await readPart(runPiece, { ...ofPiece, offset, limit: query.limit - rows.length })))
        offset = 0
        return rows.length < query.limit
      })
      return rows
    },

    async count(selection, table, max, signal) {
      const countUpTo = async (ask: Run, one: Selection, most: number): Promise<number> =>
        Number((await ask<{ total: bigint }>(selectCount(one, table, most), signal))[0]!.total)
      if (!isFiltered(selection) && max <= Math.min(recordPace.most, rowsMax)) return await countUpTo(run, selection, max)
      let total = 0
      await walk(selection, 'desc', table, signal, async piece => {
        total += await countUpTo(runPiece, piece, max - total)
        return total <= max
      })
      return total
    },

    async latest(query, table, signal) {
      const { direction } = query
      const series = mergeSeries(query, sourceOf(table).unitNs)
      const add = async (piece: Selection): Promise<boolean> => {
        series.add(await found<SeriesColumns>(selectPieceSeries(piece, table), signal))
        return true
      }
      await walk(query, 'desc', table, signal, add, table === undefined)
      const keys = series.page()
      const rows: Row[] = []
      const atOnce = Math.min(lookedUpMax, rowsMax)
      for (let at = 0; at < keys.length; at += atOnce) {
        const statement = selectRows(query, direction, table, keys.slice(at, at + atOnce))
        rows.push(...toRows(await inTurn(() => run(statement, signal), { signal }), table, query.channel))
      }
      return { groups: rows, total: series.total() }
    },

    async aggregate(query, signal) {
      const buckets = mergeBuckets(query)
      // A mean of means is none.
      const aggregation = query.aggregation === 'avg' ? 'sum' : query.aggregation
      const add = async ({ fromNs, toNs }: Selection): Promise<boolean> => {
        const ofPiece: AggregateQuery = { ...query, aggregation, fromNs, toNs }
        buckets.add(await found<BucketColumns>(selectPieceBuckets(ofPiece, groupsMax), signal))
        return true
      }
      await walk(query, query.direction, undefined, signal, add, true)
      return buckets.page()
    },
  }
}

function tooMuchAtOnce(timeNs: bigint): QueryTooLargeError {
  const { rows, bytes } = instantMax
  const time = new Date(Number(timeNs / 1_000_000n)).toISOString()
  return new QueryTooLargeError(
    `${rows} records or more, or ${bytes} bytes of names, have one time, at ${time}: ask for less by publisher, from and to`,
  )
}

/** The query, of which nothing lies before the time of a key. */
function notBefore(query: PageQuery, { timeNs }: RowKey, table: string | undefined): Selection {
  const { direction, fromNs, toNs } = query
  const endNs = timeNs + sourceOf(table).unitNs
  if (direction === 'desc') return { ...query, toNs: toNs === undefined || endNs < toNs ? endNs : toNs }
  return { ...query, fromNs: fromNs === undefined || timeNs > fromNs ? timeNs : fromNs }
}
