// Plans how to decode records of a producer's schema into a message: which field is which part of the envelope, and which fields are skipped.
//
// Fields are matched by name (Avro 1.12, "Schema Resolution"), in any order and among other fields. Text may be string or bytes,
// `created` an int or a long in the unit of its logical type, the payload bytes or string. Each may be in a union, where null counts as
// missing.

import { type AvroType, Kind, type Shape, shapeOf } from './avro/shape.ts'

/** The parts of an envelope; `none` is a skipped field. */
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

/** Nanoseconds per unit of `created`, by its logical type; without one it is in nanoseconds. */
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
  /** Without fields that take no bytes. */
  readonly steps: readonly Step[]
  /** Nanoseconds per unit of `created`. */
  readonly unitNs: number
  /** Whether all that follows the frame is the payload, and no step is needed. */
  readonly isPayload: boolean
}

/** Of messages that a JSON Schema describes: their JSON follows the frame. */
export const jsonPlan: RecordPlan = { steps: [], unitNs: 1, isPayload: true }

/**
 * The plan for a schema, or the reason why there is none.
 *
 * @param type the schema parsed by avsc
 * @param schema as returned by the registry, because avsc drops the logical types
 */
export function planOf(type: AvroType, schema: unknown): RecordPlan | string {
  if (type.typeName !== 'record' || type.fields === undefined) return `it is a ${type.typeName}, not a record`
  const made = new Map<AvroType, Shape>()
  const steps = type.fields.map(field => new Step(parts.get(field.name) ?? Part.none, shapeOf(field.type, made)))
  if (!steps.some(({ part }) => part === Part.payload)) return 'its record has no field payload'
  for (const [at, { part, shape }] of steps.entries()) {
    const kind = part === Part.created ? Kind.long : Kind.bytes
    if (part === Part.none || [shape, ...branchesOf(shape)].some(one => one.kind === kind)) continue
    const { name, type: fieldType } = type.fields[at]!
    return `its field ${name} is a ${fieldType.typeName}, not ${part === Part.created ? 'long' : part === Part.payload ? 'bytes' : 'string'}`
  }
  return { steps: steps.filter(({ shape }) => !shape.isEmpty), unitNs: unitOf(schema), isPayload: false }
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

/** A member of a parsed JSON value; undefined if it has none. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}
