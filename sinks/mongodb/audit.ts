// The audit of a MongoDB store: lists the rows of a log in the order of positions. A position is the beginning of a row's `_id`, so it reads no other rows.

import type { Document, Filter } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { StoreAudit, Whereabouts } from '../audit.ts'
import { openScanAudit } from '../scan-audit.ts'
import { limits, packedPosition } from '../sink.ts'
import { indexOf, positionOf, rowIdOf } from './bson.ts'
import type { Connection } from './connection.ts'
import type { SinkOptions } from './options.ts'
import { physicalName, readFormats, readLogs, replayedCollection } from './registry.ts'

const pageRows = 5_000
const offsetMask = 0xfff_ffff_ffffn
const idOnly = { projection: { _id: 1 } } as const

/** @param connection the caller closes it */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  async function collections(): Promise<string[]> {
    await connection.connect()
    return [senmlFormat, ...(await readFormats(connection.database)).map(({ collection }) => collection)]
  }

  const scanAudit = openScanAudit({
    async logs() {
      await connection.connect()
      return await readLogs(connection.database)
    },

    async scan(add, ranges) {
      // One query for all ranges: a server without an index on `_id`, as FerretDB on SQLite, reads all rows for each.
      const wanted = { $or: ranges.map(({ first, last }) => rowsBetween(first, last)) }
      for (const collection of await collections()) {
        for await (const { _id } of connection.database.collection(collection).find(wanted, { ...idOnly, batchSize: pageRows })) {
          const rowId = _id as unknown as Uint8Array
          add(positionOf(rowId), indexOf(rowId))
        }
      }
    },

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
      for (const collection of await collections()) {
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
