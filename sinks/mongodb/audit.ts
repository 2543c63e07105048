// The audit of a MongoDB store: lists the rows of a log in the order of positions. A position is the beginning of a row's `_id`, so it reads no other rows.

import type { Document, Filter } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { unitsDown } from '../../transformers/time-units.ts'
import type { StoreAudit, Whereabouts } from '../audit.ts'
import { type RowColumns, storedPayload, textOf } from '../contents.ts'
import { openScanAudit } from '../scan-audit.ts'
import { limits, packedPosition } from '../sink.ts'
import { behindNul, elementType, indexOf, payloadText, positionOf, rowIdOf, stringAt, valueEnd } from './bson.ts'
import type { Connection } from './connection.ts'
import type { SinkOptions } from './options.ts'
import { physicalName, readErasures, readFormats, readLogs, replayedCollection } from './registry.ts'

const pageRows = 5_000
const offsetMask = 0xfff_ffff_ffffn
const idOnly = { projection: { _id: 1 } } as const

interface StoredRow {
  readonly format: string
  /** The document, if contents were asked for. */
  readonly bytes: Buffer
}

/** @param connection the caller closes it */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  async function collections(): Promise<{ format: string; collection: string }[]> {
    await connection.connect()
    const formats = await readFormats(connection.database)
    return [{ format: senmlFormat, collection: senmlFormat }, ...formats.map(({ _id, collection }) => ({ format: _id, collection }))]
  }

  const scanAudit = openScanAudit<StoredRow>({
    async logs() {
      await connection.connect()
      return await readLogs(connection.database)
    },

    async erasures() {
      await connection.connect()
      return await readErasures(connection.database)
    },

    async scan(add, ranges, contents) {
      // One query for all ranges: a server without an index on `_id`, as FerretDB on SQLite, reads all rows for each.
      const wanted = { $or: ranges.map(({ first, last }) => rowsBetween(first, last)) }
      // The server limits a page in bytes, too. Not through the driver's objects, which change some payloads (bson.ts).
      const options = contents ? { batchSize: pageRows, raw: true } : { batchSize: pageRows, ...idOnly }
      for (const { format, collection } of await collections()) {
        for await (const found of connection.database.collection(collection).find(wanted, options)) {
          const { _id: id } = found
          const bytes = found as unknown as Buffer
          const rowId = contents ? binaryAt(bytes, idAt) : (id as unknown as Uint8Array)
          add(positionOf(rowId), indexOf(rowId), { format, bytes })
        }
      }
    },

    textOf: ({ format, bytes }) => textOf(format, columnsOf(bytes)),

    async replayed(log, partition, from, to) {
      const between = { $gte: packedPosition(log, partition, from), $lte: packedPosition(log, partition, to - 1) }
      const found = await connection.database
        .collection(replayedCollection)
        .find({ _id: between as never }, idOnly)
        .toArray()
      return new Set(found.map(({ _id }) => Number((_id as unknown as bigint) & offsetMask)))
    },

    async rowsOf(log, partition, offset, { format }: Whereabouts) {
      await connection.connect()
      const position = packedPosition(log, partition, offset)
      const rows = connection.database.collection(format === senmlFormat ? senmlFormat : physicalName(format))
      return (await rows.find(rowsBetween(position, position), idOnly).toArray()).length
    },

    statementOf(log, partition, offset, { format }) {
      const collection = format === senmlFormat ? senmlFormat : physicalName(format)
      const position = packedPosition(log, partition, offset)
      const [first, last] = boundsOf(position, position).map(rowId => `BinData(0, "${Buffer.from(rowId).toString('base64')}")`)
      return `db.getCollection("${collection}").find({ _id: { $gte: ${first}, $lte: ${last} } })`
    },
  })

  return {
    ...scanAudit,
    async hasRows(log) {
      const own = rowsBetween(packedPosition(log, 0, 0), packedPosition(log, limits.partition, limits.offset))
      for (const { collection } of await collections()) {
        if ((await connection.database.collection(collection).findOne(own, idOnly)) !== null) return true
      }
      return false
    },
  }
}

/** The rows from one position to another, both included. */
function rowsBetween(first: bigint, last: bigint): Filter<Document> {
  const [least, greatest] = boundsOf(first, last)
  return { _id: { $gte: least, $lte: greatest } } as unknown as Filter<Document>
}

function boundsOf(first: bigint, last: bigint): [least: Uint8Array, greatest: Uint8Array] {
  return [rowIdOf(first, 0), rowIdOf(last, 0xffff_ffff)]
}

/** Where the value of `_id` begins, which is the first element of every document. */
const idAt = 4 + 1 + '_id'.length + 1

/** The columns by the names of the elements. */
const columnNames: ReadonlyMap<string, keyof RowColumns | 'timeAt' | 'createdAt'> = new Map([
  ['channel', 'channel'],
  ['subtopic', 'subtopic'],
  ['publisher', 'publisher'],
  ['protocol', 'protocol'],
  ['name', 'name'],
  ['unit', 'unit'],
  ['timeUs', 'time'],
  ['time', 'timeAt'],
  ['value', 'value'],
  ['stringValue', 'string_value'],
  ['boolValue', 'bool_value'],
  ['dataValue', 'data_value'],
  ['sum', 'sum'],
  ['updateTime', 'update_time'],
  ['created', 'created'],
  ['createdAt', 'createdAt'],
  ['payload', 'payload'],
] as const)

/** Leaves out elements that operators have added. */
function columnsOf(bytes: Buffer): RowColumns {
  const columns: Partial<Record<keyof RowColumns | 'timeAt' | 'createdAt', unknown>> = { index: indexOf(binaryAt(bytes, idAt)) }
  for (let at = 4; bytes[at] !== 0; ) {
    const type = bytes[at]!
    const value = behindNul(bytes, at + 1)
    const column = columnNames.get(bytes.toString('latin1', at + 1, value - 1))
    if (column !== undefined) columns[column] = column === 'payload' ? payloadOf(bytes, type, value) : valueOf(bytes, type, value)
    at = valueEnd(type, bytes, value)
  }
  const { timeAt, createdAt, ...row } = columns
  // People query the dates, and readers the integers: they must agree.
  if ('time' in row && !isMillisecondOf(timeAt, row.time, 1000n)) row.time = `${String(row.time)}, but the date ${String(timeAt)}`
  if ('created' in row && !isMillisecondOf(createdAt, row.created, 1_000_000n)) {
    row.created = `${String(row.created)}, but the date ${String(createdAt)}`
  }
  return row
}

function isMillisecondOf(date: unknown, time: unknown, perMs: bigint): boolean {
  return date instanceof Date && typeof time === 'bigint' && date.getTime() === Number(unitsDown(time, perMs))
}

function payloadOf(bytes: Buffer, type: number, at: number): unknown {
  return type === elementType.document ? storedPayload(payloadText(bytes, at)) : foreign(type)
}

function valueOf(bytes: Buffer, type: number, at: number): unknown {
  switch (type) {
    case elementType.string:
      return stringAt(bytes, at)
    case elementType.double:
      return bytes.readDoubleLE(at)
    case elementType.int64:
      return bytes.readBigInt64LE(at)
    case elementType.boolean:
      return bytes[at] !== 0
    case elementType.binary:
      return binaryAt(bytes, at)
    case elementType.date:
      return new Date(Number(bytes.readBigInt64LE(at)))
    default:
      return foreign(type)
  }
}

/** Stands for a value of a type that the column never has: no value of a device is printed like it. */
function foreign(type: number): symbol {
  return Symbol(`BSON type ${type}`)
}

/** The bytes of a binary value, without copying them. */
function binaryAt(bytes: Buffer, at: number): Buffer {
  return bytes.subarray(at + 5, at + 5 + bytes.readInt32LE(at))
}
