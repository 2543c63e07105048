// What of an Avro schema says how many bytes a value takes, so that one nobody asked for can be stepped over (Avro 1.12, "Binary Encoding").
//
//   null                nothing            string, bytes   length long · bytes
//   boolean             one byte           record          its fields
//   int, long, enum     long               union           which long · the value
//   float, double       4, 8 bytes         array, map      blocks: count long · (bytes long, where the count is negative) · items; count 0 ends
//   fixed               its size
//
// Bytes and schemas are a producer's: nothing here allocates, descends deeper than `depthMax`, or loops over what takes no bytes. Named
// types make a schema of a few lines a tree of 2^40 fields, and none of those fields need take a byte: a shape holds only parts that do.

import { length, long, readLength, readLong } from './avro-long.ts'

/** A type of avsc, as far as it is looked at here. */
export interface AvroType {
  readonly typeName: string
  /** Of a record. */
  readonly fields?: readonly { readonly name: string; readonly type: AvroType }[]
  readonly itemsType?: AvroType
  readonly valuesType?: AvroType
  /** Of a union. */
  readonly types?: readonly AvroType[]
  /** Of a fixed. */
  readonly size?: number
}

export const Kind = { nothing: 0, fixed: 1, long: 2, bytes: 3, record: 4, union: 5, array: 6, map: 7 } as const
export type Kind = (typeof Kind)[keyof typeof Kind]

export class Shape {
  readonly kind: Kind
  /** Of `fixed`. */
  readonly size: number
  /** A record's fields but those that take no bytes, a union's branches, the one item of an array or map. */
  parts: readonly Shape[] = []
  /** No value of it takes a byte. */
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
 * The shape of a type; a type that holds itself has a shape that does.
 *
 * @throws TypeError for a type that is none of Avro's
 */
export function shapeOf(type: AvroType, made: Map<AvroType, Shape> = new Map()): Shape {
  const known = made.get(type)
  if (known !== undefined) return known
  const shape = bareShape(type)
  made.set(type, shape)
  const parts = type.fields?.map(field => field.type) ?? type.types ?? [type.itemsType ?? type.valuesType].filter(one => one !== undefined)
  shape.parts = parts.map(part => shapeOf(part, made))
  if (shape.kind === Kind.record) {
    // One that holds itself is not done here, and counts as one that takes bytes: what ends it does.
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
      throw new TypeError(`the type ${typeName} is none of Avro's`)
  }
}

const depthMax = 64

/**
 * Steps over a value.
 *
 * @returns the place behind it; beyond `end` where it is cut, nested too deeply, or no value of this shape
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

/** The branch of a union that the long read last names; undefined where there is none. */
export function branchOf({ parts }: Shape): Shape | undefined {
  return long.high === 0 ? parts[long.low] : undefined
}

/** The blocks of an array, or of a map, whose items have a name before them. */
function skipBlocks({ kind, parts }: Shape, bytes: Uint8Array, at: number, end: number, depth: number): number {
  const broken = end + 1
  const item = parts[0]!
  const named = kind === Kind.map
  for (;;) {
    at = readLong(bytes, at, end)
    if (at > end) return broken
    if (long.high === 0 && long.low === 0) return at
    if (long.high < 0) {
      // How many there are matters to nobody: their bytes are stepped over at once.
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
