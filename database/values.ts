// Converts values to and from PostgreSQL's text format, the same for both drivers: encodes parameters and parses columns.

import type { SqlValue } from './database.ts'

type Parser = (text: string) => SqlValue

const asText: Parser = text => text
const asNumber: Parser = text => Number(text)
const asBigint: Parser = text => BigInt(text)
const asBoolean: Parser = text => text === 't'
/** bytea_output is hex on both drivers: `\x00ff`. */
const asBytes: Parser = text => Buffer.from(text.slice(2), 'hex')

/** By the type's OID in pg_type, which PostgreSQL never renumbers. Other types stay as PostgreSQL prints them. */
const parsers = new Map<number, Parser>([
  [16, asBoolean], // bool
  [17, asBytes], // bytea
  [20, asBigint], // int8
  [21, asNumber], // int2
  [23, asNumber], // int4
  [26, asNumber], // oid
  [700, asNumber], // float4
  [701, asNumber], // float8
  [1005, text => splitArray(text).map(Number)], // int2[]
  [1007, text => splitArray(text).map(Number)], // int4[]
  [1016, text => splitArray(text).map(BigInt)], // int8[]
  [1021, text => splitArray(text).map(Number)], // float4[]
  [1022, text => splitArray(text).map(Number)], // float8[]
  [1009, splitArray], // text[]
  [1015, splitArray], // varchar[]
  [2951, splitArray], // uuid[]
])

/** The parser of a column by its type's OID; types without a parser stay text. */
export function parserOf(typeId: number): Parser {
  return parsers.get(typeId) ?? asText
}

/** Encodes a parameter. Numbers keep the sign of zero, which `String` drops. */
export function encodeValue(value: SqlValue): string | null {
  if (value === null) return null
  if (typeof value === 'string') return value
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'boolean') return value ? 't' : 'f'
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}`
  let literal = '{'
  for (const element of value) {
    const text = encodeValue(element) ?? ''
    literal += `${literal.length > 1 ? ',' : ''}"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  }
  return `${literal}}`
}

/**
 * The elements of a one-dimensional array literal, `{1,"a b",NULL}`.
 *
 * @throws RangeError for a NULL element and for a second dimension: `SqlValue` has neither
 */
function splitArray(literal: string): string[] {
  const elements: string[] = []
  let at = literal.startsWith('[') ? literal.indexOf('=') + 2 : 1
  while (at < literal.length && literal[at] !== '}') {
    let element = ''
    if (literal[at] === '"') {
      for (at += 1; literal[at] !== '"'; at += 1) {
        if (literal[at] === '\\') at += 1
        element += literal[at]
      }
      at += 1
    } else {
      const start = at
      while (literal[at] !== ',' && literal[at] !== '}') at += 1
      element = literal.slice(start, at)
      if (element === 'NULL' || element.startsWith('{')) {
        throw new RangeError(`an array with NULL or with more than one dimension cannot be read: unnest it in the query`)
      }
    }
    elements.push(element)
    if (literal[at] === ',') at += 1
  }
  return elements
}
