// A JSON document as BSON: every key and value as it came, whatever it is called.
//
// Written here and not by the driver, which reads some keys of a payload as its own: `{"_bsontype": "Long", …}` would be stored as a number.

import type { JsonObject, JsonValue } from '../../transformers/record-batch.ts'
import { type BsonBytes, elementType } from './bson-bytes.ts'
import { documentBytesMax, halfPair, levelsMax, notFinite, nulInKey, tooDeep, tooLarge, Unwritable } from './refusals.ts'

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/** The elements of a payload are the third level: they lie in it, and it in its row. */
const firstLevel = 2

/**
 * Appends the object, which is the value of an element whose head was written.
 *
 * A number that is whole and fits is an int32 and any other a double, as MongoDB's own drivers have it; a bigint is an int64 where it fits, else the nearest double.
 *
 * @throws Unwritable what MongoDB could not store, or not as it came; the caller takes back what was written
 */
export function writePayload(bson: BsonBytes, payload: JsonObject): void {
  writeObject(bson, payload, firstLevel)
}

function writeObject(bson: BsonBytes, object: JsonObject, level: number): void {
  if (level > levelsMax) throw new Unwritable(tooDeep)
  bson.reserve(4)
  const start = bson.beginDocument()
  for (const key of Object.keys(object)) {
    if (key.includes('\0')) throw new Unwritable(nulInKey)
    if (!key.isWellFormed()) throw new Unwritable(halfPair('a key'))
    writeElement(bson, key, object[key]!, level)
  }
  bson.reserve(1)
  bson.endDocument(start)
}

function writeArray(bson: BsonBytes, values: readonly JsonValue[], level: number): void {
  if (level > levelsMax) throw new Unwritable(tooDeep)
  bson.reserve(4)
  const start = bson.beginDocument()
  for (let at = 0; at < values.length; at++) writeElement(bson, String(at), values[at]!, level)
  bson.reserve(1)
  bson.endDocument(start)
}

function writeElement(bson: BsonBytes, key: string, value: JsonValue, level: number): void {
  // 8 bytes of a number, or what a text has beside its characters.
  reserveText(bson, key.length, 16)
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw new Unwritable(halfPair('a text'))
    bson.headOf(elementType.string, key)
    reserveText(bson, value.length, 5)
    bson.string(value)
  } else if (typeof value === 'number') writeNumber(bson, key, value)
  else if (typeof value === 'bigint') writeBigint(bson, key, value)
  else if (typeof value === 'boolean') {
    bson.headOf(elementType.boolean, key)
    bson.boolean(value ? 1 : 0)
  } else if (value === null) bson.headOf(elementType.null, key)
  else if (isArray(value)) {
    bson.headOf(elementType.array, key)
    writeArray(bson, value, level + 1)
  } else {
    bson.headOf(elementType.document, key)
    writeObject(bson, value, level + 1)
  }
}

/** Refuses what cannot fit before room is made for it. */
function reserveText(bson: BsonBytes, length: number, more: number): void {
  if (length > documentBytesMax) throw new Unwritable(tooLarge)
  bson.reserve(3 * length + more)
}

function writeNumber(bson: BsonBytes, key: string, value: number): void {
  if (!Number.isFinite(value)) throw new Unwritable(notFinite)
  if ((value | 0) === value && !Object.is(value, -0)) {
    bson.headOf(elementType.int32, key)
    bson.int32(value)
  } else {
    bson.headOf(elementType.double, key)
    bson.double(value)
  }
}

function writeBigint(bson: BsonBytes, key: string, value: bigint): void {
  if (value >= int64Min && value <= int64Max) {
    bson.headOf(elementType.int64, key)
    bson.int64(Number(value >> 32n), Number(BigInt.asUintN(32, value)))
    return
  }
  const nearest = Number(value)
  if (!Number.isFinite(nearest)) throw new Unwritable(notFinite)
  bson.headOf(elementType.double, key)
  bson.double(nearest)
}

/** `Array.isArray` does not know read-only arrays. */
function isArray(value: readonly JsonValue[] | JsonObject): value is readonly JsonValue[] {
  return Array.isArray(value)
}
