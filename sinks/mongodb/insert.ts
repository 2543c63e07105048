// Inserts the rows of a batch: in pieces, a few at once, and finds which rows the store did not take.
//
// A piece is an unordered insert: the server tries every row and names those that it refuses. Where it refuses the whole command because of
// what a row holds, the piece is halved until that row is alone.

import type { Connection } from './connection.ts'
import type { EncodedTable } from './encoded-batch.ts'
import { isDataError, type WriteError } from './errors.ts'
import { inLanes } from './lanes.ts'

const pieceRowsMax = 1_000
/** A row may have 16 MiB, and a message of the protocol 48 MB. */
const pieceBytesMax = 4 * 1024 * 1024

/** A table of the batch, and the collection that its rows go to. */
export interface Target {
  readonly table: EncodedTable
  readonly collection: string
}

/** By table, by row, what the server said of those that it did not insert. */
export type RowErrors = ReadonlyMap<EncodedTable, ReadonlyMap<number, WriteError>>

export interface InsertParts {
  readonly connection: Connection
  readonly targets: readonly Target[]
  /** Messages whose rows are not sent. */
  readonly leftOut: { has(message: number): boolean; readonly size: number }
  readonly writesInFlight: number
  /** Resolves where the store takes an insert that it knows to be harmless; what it throws is no fault of a row. */
  readonly probe: (signal: AbortSignal) => Promise<void>
  readonly signal: AbortSignal
}

/** Resolves when every row is stored, or known not to be; where one insert fails, nothing more is sent, and those under way are waited for. */
export async function insertRows(parts: InsertParts): Promise<RowErrors> {
  const errors = new Map<EncodedTable, Map<number, WriteError>>()
  const pieces = piecesOf(parts.targets, parts.leftOut)
  await inLanes(pieces, parts.writesInFlight, piece => insertPiece(parts, piece, errors))
  return errors
}

interface Piece {
  readonly target: Target
  /** Ascending. */
  readonly rows: readonly number[]
}

function piecesOf(targets: readonly Target[], leftOut: InsertParts['leftOut']): Piece[] {
  const pieces: Piece[] = []
  for (const target of targets) {
    const { rowMessage, rowStart } = target.table
    let rows: number[] = []
    let bytes = 0
    for (let row = 0; row < rowMessage.length; row++) {
      if (leftOut.size > 0 && leftOut.has(rowMessage[row]!)) continue
      const length = rowStart[row + 1]! - rowStart[row]!
      if (rows.length === pieceRowsMax || (rows.length > 0 && bytes + length > pieceBytesMax)) {
        pieces.push({ target, rows })
        rows = []
        bytes = 0
      }
      rows.push(row)
      bytes += length
    }
    if (rows.length > 0) pieces.push({ target, rows })
  }
  return pieces
}

async function insertPiece(parts: InsertParts, piece: Piece, errors: Map<EncodedTable, Map<number, WriteError>>): Promise<void> {
  const { connection, probe, signal } = parts
  const { target, rows } = piece
  let found: readonly WriteError[]
  try {
    found = await connection.insert(target.collection, bytesOf(target.table, rows), signal)
  } catch (error) {
    if (!isDataError(error)) throw error
    await probe(signal)
    if (rows.length > 1) {
      const middle = rows.length >> 1
      await insertPiece(parts, { target, rows: rows.slice(0, middle) }, errors)
      return await insertPiece(parts, { target, rows: rows.slice(middle) }, errors)
    }
    found = [{ index: 0, code: error.code, errmsg: error.message }]
  }
  if (found.length === 0) return
  let ofTable = errors.get(target.table)
  if (ofTable === undefined) errors.set(target.table, (ofTable = new Map()))
  for (const one of found) ofTable.set(rows[one.index]!, one)
}

/** The documents of these rows, one behind the other; a copy only where rows between them are left out. */
function bytesOf({ bytes, rowStart }: EncodedTable, rows: readonly number[]): Uint8Array {
  const first = rows[0]!
  const last = rows.at(-1)!
  if (last - first === rows.length - 1) return bytes.subarray(rowStart[first], rowStart[last + 1])
  return Buffer.concat(rows.map(row => bytes.subarray(rowStart[row], rowStart[row + 1])))
}
