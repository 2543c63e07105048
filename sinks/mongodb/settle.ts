// What became of the rows of a batch, message by message: which were in the store already, and which the store refuses.

import type { Rejection } from '../sink.ts'
import type { Connection } from './connection.ts'
import type { EncodedTable } from './encoded-batch.ts'
import { meaningOf, rowFailure, type WriteError } from './errors.ts'
import { listIndexes } from './indexes.ts'
import type { RowErrors, Target } from './insert.ts'
import { indexOf, keyOf, rowIdAt } from './row-id.ts'

const duplicateKey = 11_000
const idsAtOnce = 1_000
const reasonLengthMax = 500

export interface Settled {
  /** Messages whose rows were all there before. */
  readonly duplicates: ReadonlySet<number>
  /** One for each message that the store refuses, by its first culprit. */
  readonly rejections: readonly Rejection[]
}

/**
 * A row that was not inserted is in the store already, or the store refuses it. It is in the store where its `_id` is: also one that would be
 * refused now, by a validator that was made since; and not one whose value a unique index of an operator's has under another `_id`.
 *
 * @param errors of `insertRows` on these targets
 * @param leftOut messages that were not sent
 * @throws SinkError where a row was not inserted for another reason than what it holds
 */
export async function settle(
  connection: Connection,
  targets: readonly Target[],
  errors: RowErrors,
  leftOut: { has(message: number): boolean },
  signal: AbortSignal,
): Promise<Settled> {
  const rejections = new Map<number, Rejection>()
  if (errors.size === 0) return { duplicates: new Set(), rejections: [] }
  const duplicates = new Set<number>()
  const inserted = new Set<number>()
  for (const target of targets) {
    const { table } = target
    const ofTable = errors.get(table) ?? noErrors
    const absent = await absentRows(connection, target, ofTable, signal)
    for (let row = 0; row < table.rowMessage.length; row++) {
      const message = table.rowMessage[row]!
      if (leftOut.has(message)) continue
      const error = ofTable.get(row)
      if (error === undefined) inserted.add(message)
      else if (!absent.has(row)) duplicates.add(message)
      else if (!rejections.has(message)) rejections.set(message, rejectionOf(table, row, message, error))
    }
  }
  for (const message of inserted) duplicates.delete(message)
  for (const message of rejections.keys()) duplicates.delete(message)
  return { duplicates, rejections: [...rejections.values()] }
}
const noErrors: ReadonlyMap<number, WriteError> = new Map()

/**
 * The rows whose errors do not say that their `_id` is there, and whose `_id` is not. A server that names no index (FerretDB) is asked whether there is a
 * choice, since it reads the whole collection for a look at some `_id`s.
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

/** Those of these `_id`s that the collection has, as keys of a map. What another writer has inserted just now counts, before a majority has it. */
export async function rowIdsThere(
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

/** Beside that of `_id`, which is not said to be one: only an operator makes others. Asked for where a duplicate may be of any. */
async function hasUniqueIndex(connection: Connection, collection: string, signal: AbortSignal): Promise<boolean> {
  const indexes = await listIndexes(connection, collection, signal)
  return indexes.some(index => index['unique'] === true)
}

/** True for a duplicate of the `_id`, where the server says so. */
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
      'if the server is what has to change (a validator, an index, a limit), change it and replay the message; else the device has to send something else',
  }
}

/** Servers quote the row, which may be long, and stands in a header of the dead letter. */
function excerptOf(text: string): string {
  return text.length <= reasonLengthMax ? text : `${text.slice(0, reasonLengthMax).toWellFormed()}…`
}

const hints: Readonly<Record<number, string>> = {
  [duplicateKey]: 'a unique index of the collection has this value already: drop the index, or leave the message out',
  121: 'the collection has a validator: change it, or what the device sends, then replay the message',
}
