// How a record of a producer's schema is read as a message with its envelope: which of its fields is which part, and what is stepped over.
//
// Fields are matched by name (Avro 1.12, "Schema Resolution"), whatever their order and whatever else there is. Text may be string or bytes,
// `created` an int or a long in the unit of its logical type, the payload bytes or string; each also in a union, of which null is a part
// that is missing.

import { type AvroType, Kind, type Shape, shapeOf } from './avro-shape.ts'

/** The parts of an envelope; none is a field that is stepped over. */
export const Part = { none: 0, channel: 1, subtopic: 2, publisher: 3, protocol: 4, created: 5, contentType: 6, payload: 7 } as const
export type Part = (typeof Part)[keyof typeof Part]

const parts: ReadonlyMap<string, Part> = new Map([
  ['channel', Part.channel],
  ['subtopic', Part.subtopic],
  ['publisher', Part.publisher],
  ['protocol', Part.protocol],
  ['created', Part.created],
  ['content_type', Part.contentType],
  ['payload', Part.payload],
])

/** Nanoseconds that `created` counts, by its logical type; by itself it counts nanoseconds. */
const unitsNs: ReadonlyMap<unknown, number> = new Map([
  ['timestamp-millis', 1_000_000],
  ['timestamp-micros', 1000],
])

export class Step {
  readonly part: Part
  readonly shape: Shape

  constructor(part: Part, shape: Shape) {
    this.part = part
    this.shape = shape
  }
}

export interface RecordPlan {
  /** Those of the fields that take no bytes are left out. */
  readonly steps: readonly Step[]
  /** Nanoseconds that one of `created` stands for. */
  readonly unitNs: number
}

/**
 * The plan of a schema; a text where it has none, which says why.
 *
 * @param type as avsc makes it of the schema
 * @param schema as the registry gave it: avsc forgets the logical types
 */
export function planOf(type: AvroType, schema: unknown): RecordPlan | string {
  if (type.typeName !== 'record' || type.fields === undefined) return `it is a ${type.typeName}, and no record`
  const made = new Map<AvroType, Shape>()
  const steps = type.fields.map(field => new Step(parts.get(field.name) ?? Part.none, shapeOf(field.type, made)))
  if (!steps.some(({ part }) => part === Part.payload)) return 'its record has no field payload'
  for (const [at, { part, shape }] of steps.entries()) {
    const kind = part === Part.created ? Kind.long : Kind.bytes
    if (part === Part.none || [shape, ...branchesOf(shape)].some(one => one.kind === kind)) continue
    const { name, type: fieldType } = type.fields[at]!
    return `its field ${name} is a ${fieldType.typeName}, and no ${part === Part.created ? 'long' : part === Part.payload ? 'bytes' : 'string'}`
  }
  return { steps: steps.filter(({ shape }) => !shape.isEmpty), unitNs: unitOf(schema) }
}

function branchesOf(shape: Shape): readonly Shape[] {
  return shape.kind === Kind.union ? shape.parts : []
}

function unitOf(schema: unknown): number {
  const fields = memberOf(schema, 'fields')
  const created: unknown = Array.isArray(fields) ? fields.find(field => memberOf(field, 'name') === 'created') : undefined
  const type = memberOf(created, 'type')
  const long: unknown = Array.isArray(type) ? type.find(branch => memberOf(branch, 'logicalType') !== undefined) : type
  return unitsNs.get(memberOf(long, 'logicalType')) ?? 1
}

/** A member of what JSON was parsed into; undefined where it has none. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}
