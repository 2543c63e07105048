// Reduces an Avro schema to what determines the size of a value, so that unneeded fields can be skipped (Avro 1.12, "Binary Encoding").
//
//   null                nothing            string, bytes   length long · bytes
//   boolean             one byte           record          its fields
//   int, long, enum     long               union           which long · the value
//   float, double       4, 8 bytes         array, map      blocks: count long · (bytes long, where the count is negative) · items; count 0 ends
//   fixed               its size
//
// Bytes and schemas come from producers and are untrusted: skipping never allocates, never recurses deeper than `depthMax`, and never loops over
// empty values. With named types a schema of a few lines can describe 2^40 fields of zero bytes, so a shape contains only parts that take bytes.

import { length, long, readLength, readLong } from './long.ts'

/** The properties of an avsc type that are used here. */
export interface AvroType {
  readonly typeName: string
  /** Set for a record. */
  readonly fields?: readonly { readonly name: string; readonly type: AvroType }[]
  readonly itemsType?: AvroType
  readonly valuesType?: AvroType
  /** Set for a union. */
  readonly types?: readonly AvroType[]
  /** Set for a fixed. */
  readonly size?: number
  /** Set for a logical type: what it is encoded as. */
  readonly underlyingType?: AvroType
}

export const Kind = { nothing: 0, fixed: 1, long: 2, bytes: 3, record: 4, union: 5, array: 6, map: 7 } as const
export type Kind = (typeof Kind)[keyof typeof Kind]

export class Shape {
  readonly kind: Kind
  /** Size of a `fixed`. */
  readonly size: number
  /** The fields of a record except empty ones, the branches of a union, or the item type of an array or map. */
  parts: readonly Shape[] = []
  /** True if its values take no bytes. */
  isEmpty: boolean

  constructor(kind: Kind, size = 0) {
    this.kind = kind
    this.size = size
    this.isEmpty = kind === Kind.nothing || (kind === Kind.fixed && size === 0)
  }
}

const leaves: ReadonlyMap<string, readonly [Kind, size?: number]> = new Map([
  ['null', [Kind.nothing]],
  ['boolean', [Kind.fixed, 1]],
  ['int', [Kind.long]],
  ['long', [Kind.long]],
  ['enum', [Kind.long]],
  ['float', [Kind.fixed, 4]],
  ['double', [Kind.fixed, 8]],
  ['string', [Kind.bytes]],
  ['bytes', [Kind.bytes]],
])

/**
 * The shape of a type; a recursive type has a recursive shape.
 *
 * @throws TypeError for an unknown type
 */
export function shapeOf(type: AvroType, made: Map<AvroType, Shape> = new Map()): Shape {
  if (type.underlyingType !== undefined) return shapeOf(type.underlyingType, made)
  const known = made.get(type)
  if (known !== undefined) return known
  const shape = bareShape(type)
  made.set(type, shape)
  const parts = type.fields?.map(field => field.type) ?? type.types ?? [type.itemsType ?? type.valuesType].filter(one => one !== undefined)
  shape.parts = parts.map(part => shapeOf(part, made))
  if (shape.kind === Kind.record) {
    // A recursive part is not complete yet, and counts as not empty: the union or array that ends the recursion takes bytes.
    shape.parts = shape.parts.filter(part => !part.isEmpty)
    shape.isEmpty = shape.parts.length === 0
  }
  return shape
}

function bareShape({ typeName, size }: AvroType): Shape {
  const leaf = leaves.get(typeName)
  if (leaf !== undefined) return new Shape(...leaf)
  switch (typeName) {
    case 'fixed':
      return new Shape(Kind.fixed, size)
    case 'record':
    case 'error':
      return new Shape(Kind.record)
    case 'array':
      return new Shape(Kind.array)
    case 'map':
      return new Shape(Kind.map)
    case 'union:wrapped':
    case 'union:unwrapped':
      return new Shape(Kind.union)
    default:
      throw new TypeError(`${typeName} is not an Avro type`)
  }
}

const depthMax = 64

/**
 * Skips a value.
 *
 * @returns the index after it; beyond `end` if it is cut off, nested too deeply, or does not match the shape
 */
export function skip(shape: Shape, bytes: Uint8Array, at: number, end: number, depth = 0): number {
  const broken = end + 1
  if (depth > depthMax) return broken
  switch (shape.kind) {
    case Kind.nothing:
      return at
    case Kind.fixed:
      return shape.size > end - at ? broken : at + shape.size
    case Kind.long:
      return readLong(bytes, at, end)
    case Kind.bytes:
      at = readLength(bytes, at, end)
      return at > end ? broken : at + length.value
    case Kind.record:
      for (const part of shape.parts) {
        at = skip(part, bytes, at, end, depth + 1)
        if (at > end) return broken
      }
      return at
    case Kind.union: {
      at = readLong(bytes, at, end)
      const branch = at > end ? undefined : branchOf(shape)
      return branch === undefined ? broken : skip(branch, bytes, at, end, depth + 1)
    }
    case Kind.array:
    case Kind.map:
      break
  }
  return skipBlocks(shape, bytes, at, end, depth)
}

/** The branch of a union selected by the long read last; undefined if there is none. */
export function branchOf({ parts }: Shape): Shape | undefined {
  return long.high === 0 ? parts[long.low] : undefined
}

/** Skips the blocks of an array, or of a map, in which a name precedes each item. */
function skipBlocks({ kind, parts }: Shape, bytes: Uint8Array, at: number, end: number, depth: number): number {
  const broken = end + 1
  const item = parts[0]!
  const named = kind === Kind.map
  for (;;) {
    at = readLong(bytes, at, end)
    if (at > end) return broken
    if (long.high === 0 && long.low === 0) return at
    if (long.high < 0) {
      // The number of items is not needed: their bytes are skipped together.
      at = readLength(bytes, at, end)
      if (at > end) return broken
      at += length.value
      continue
    }
    if (item.isEmpty && !named) continue
    if (long.high !== 0 || long.low > end - at) return broken
    for (let left = long.low; left > 0; left--) {
      if (named) {
        at = readLength(bytes, at, end)
        if (at > end) return broken
        at += length.value
      }
      at = skip(item, bytes, at, end, depth + 1)
      if (at > end) return broken
    }
  }
}
