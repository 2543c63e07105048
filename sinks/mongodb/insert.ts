// Inserts the rows of a batch in pieces, a few at once, and finds the rows that were stored before and those that the store refuses.
//
// A piece is an unordered insert: the server tries every row and names those that it refuses. If it refuses the whole command because of the content
// of a row, the piece is halved until that row is alone.

import { eachAtOnce } from '../../config/each-at-once.ts'
import type { Rejection } from '../sink.ts'
import { indexOf, keyOf, rowIdAt } from './bson.ts'
import type { Connection } from './connection.ts'
import type { EncodedTable } from './encode.ts'
import { duplicateKey, isDataError, meaningOf, rowFailure, type WriteError } from './errors.ts'
import { listIndexes } from './registry.ts'

const pieceRowsMax = 1_000
/** A row may have 16 MiB, and a message of the protocol 48 MB. */
const pieceBytesMax = 4 * 1024 * 1024

/** A table of the batch, and the collection for its rows. */
export interface Target {
  readonly table: EncodedTable
  readonly collection: string
}

/** By table and row, what the server said about rows that it did not insert. */
export type RowErrors = ReadonlyMap<EncodedTable, ReadonlyMap<number, WriteError>>

interface InsertParts {
  readonly connection: Connection
  readonly targets: readonly Target[]
  /** Messages whose rows are not sent. */
  readonly leftOut: { has(message: number): boolean; readonly size: number }
  readonly writesInFlight: number
  /** Resolves if the store accepts an insert that is surely valid; if it throws, no row is at fault. */
  readonly probe: (signal: AbortSignal) => Promise<void>
  readonly signal: AbortSignal
}

/** Resolves when every row is stored, or known not to be. If an insert fails, it sends nothing more, and waits for the inserts in flight. */
export async function insertRows(parts: InsertParts): Promise<RowErrors> {
  const errors = new Map<EncodedTable, Map<number, WriteError>>()
  const pieces = piecesOf(parts.targets, parts.leftOut)
  await eachAtOnce(pieces, parts.writesInFlight, piece => insertPiece(parts, piece, errors))
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
  let tableErrors = errors.get(target.table)
  if (tableErrors === undefined) errors.set(target.table, (tableErrors = new Map()))
  for (const one of found) tableErrors.set(rows[one.index]!, one)
}

/** The documents of these rows, one after another. Copies them only if rows in between are left out. */
function bytesOf({ bytes, rowStart }: EncodedTable, rows: readonly number[]): Uint8Array {
  const first = rows[0]!
  const last = rows.at(-1)!
  if (last - first === rows.length - 1) return bytes.subarray(rowStart[first], rowStart[last + 1])
  return Buffer.concat(rows.map(row => bytes.subarray(rowStart[row], rowStart[row + 1])))
}

const idsAtOnce = 1_000
const reasonLengthMax = 500

interface InsertOutcome {
  /** Messages whose rows were all stored before. */
  readonly duplicates: ReadonlySet<number>
  /** One for each message that the store refuses, by its first refused row; partial if another row of it is stored, now or before. */
  readonly rejections: readonly Rejection[]
}

/**
 * A row that was not inserted is either stored already or refused. It is stored if its `_id` exists: also if the server would refuse it now, because
 * of a validator that was created since. It is not stored if only an operator's unique index has its value, under another `_id`.
 *
 * @param errors of `insertRows` on these targets
 * @param leftOut messages that were not sent
 * @throws SinkError if a row was not inserted for a reason other than its content
 */
export async function outcomeOf(
  connection: Connection,
  targets: readonly Target[],
  errors: RowErrors,
  leftOut: { has(message: number): boolean },
  signal: AbortSignal,
): Promise<InsertOutcome> {
  const rejections = new Map<number, Rejection>()
  if (errors.size === 0) return { duplicates: new Set(), rejections: [] }
  const duplicates = new Set<number>()
  const inserted = new Set<number>()
  for (const target of targets) {
    const { table } = target
    const tableErrors = errors.get(table) ?? noErrors
    const absent = await absentRows(connection, target, tableErrors, signal)
    for (let row = 0; row < table.rowMessage.length; row++) {
      const message = table.rowMessage[row]!
      if (leftOut.has(message)) continue
      const error = tableErrors.get(row)
      if (error === undefined) inserted.add(message)
      else if (!absent.has(row)) duplicates.add(message)
      else if (!rejections.has(message)) rejections.set(message, rejectionOf(table, row, message, error))
    }
  }
  const refused = [...rejections.values()].map((rejection): Rejection => {
    const { message } = rejection
    return inserted.has(message) || duplicates.has(message) ? { ...rejection, partial: true } : rejection
  })
  for (const message of inserted) duplicates.delete(message)
  for (const message of rejections.keys()) duplicates.delete(message)
  return { duplicates, rejections: refused }
}
const noErrors: ReadonlyMap<number, WriteError> = new Map()

/**
 * The rows whose `_id` does not exist. Their errors are checked first, since these may say that the `_id` is the duplicate. A server that names no
 * index (FerretDB) reads the whole collection to look for some `_id`s, so it is first asked whether there is any other unique index.
 */
async function absentRows(
  connection: Connection,
  { table, collection }: Target,
  errors: ReadonlyMap<number, WriteError>,
  signal: AbortSignal,
): Promise<Set<number>> {
  const absent = new Set<number>()
  let doubtful: number[] = []
  for (const [row, error] of errors) {
    if (meaningOf(error.code) !== 'data') throw rowFailure(error, `MongoDB did not insert a row into ${collection}`)
    if (!isOfId(error)) doubtful.push(row)
  }
  const isUnsaid = (row: number): boolean => errors.get(row)!.code === duplicateKey && errors.get(row)!.keyPattern === undefined
  if (doubtful.some(isUnsaid) && !(await hasUniqueIndex(connection, collection, signal))) doubtful = doubtful.filter(row => !isUnsaid(row))
  for (let start = 0; start < doubtful.length; start += idsAtOnce) {
    const some = doubtful.slice(start, start + idsAtOnce)
    const rowIds = some.map(row => rowIdAt(table.bytes, table.rowStart[row]!))
    const there = await rowIdsThere(connection, collection, rowIds, signal)
    for (const [at, row] of some.entries()) if (!there.has(keyOf(rowIds[at]!))) absent.add(row)
  }
  return absent
}

/** Those of these `_id`s that exist, as keys of a map. Reads locally: what another writer has just inserted counts before a majority has it. */
async function rowIdsThere(
  { database }: Connection,
  collection: string,
  rowIds: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const found = await database
    .collection(collection)
    .find({ _id: { $in: rowIds as never } }, { projection: { _id: 1 }, readConcern: { level: 'local' }, signal })
    .toArray()
  return new Set(found.map(({ _id }) => keyOf(_id as unknown as Uint8Array)))
}

/** True if there is a unique index besides that of `_id`, which is not listed as unique: only operators create others. */
async function hasUniqueIndex(connection: Connection, collection: string, signal: AbortSignal): Promise<boolean> {
  const indexes = await listIndexes(connection, collection, signal)
  return indexes.some(index => index['unique'] === true)
}

/** True if the server says that the duplicate is the `_id`. */
function isOfId({ code, keyPattern }: WriteError): boolean {
  if (code !== duplicateKey || keyPattern === undefined) return false
  const names = Object.keys(keyPattern)
  return names.length === 1 && names[0] === '_id'
}

function rejectionOf(table: EncodedTable, row: number, message: number, { code, errmsg }: WriteError): Rejection {
  return {
    message,
    rule: 'store-refused',
    record: indexOf(rowIdAt(table.bytes, table.rowStart[row]!)),
    reason: `MongoDB refused it (code ${code}): ${excerptOf(errmsg)}`,
    hint:
      hints[code] ??
      'if a setting of the server is the reason (a validator, an index, a limit), change it and replay the message; otherwise the device has to send other data',
  }
}

/** Servers quote the row, which may be long; the text becomes a header of the dead letter. */
function excerptOf(text: string): string {
  return text.length <= reasonLengthMax ? text : `${text.slice(0, reasonLengthMax).toWellFormed()}…`
}

const hints: Readonly<Record<number, string>> = {
  [duplicateKey]: 'a unique index of the collection has this value already: drop the index, or drop the message',
  121: 'the collection has a validator: change it, or what the device sends, then replay the message',
}
