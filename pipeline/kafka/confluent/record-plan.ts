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

/** Nanoseconds per unit of `created`, by its logical type; of any other number in nanoseconds. */
export const unitsNs: ReadonlyMap<string, number> = new Map([
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
  /** Nanoseconds per unit of `created`: of each branch of its union, or only one. 0 for a branch that is not a time. */
  readonly createdUnitsNs: readonly number[]
  /** Whether all that follows the frame is the payload, and no step is needed. */
  readonly isPayload: boolean
}

/** Of messages that a JSON Schema describes: their JSON follows the frame. */
export const jsonPlan: RecordPlan = { steps: [], createdUnitsNs: [], isPayload: true }

/** The plan for a type with the logical types of `unitsNs`, or the reason why there is none. */
export function planOf(type: AvroType): RecordPlan | string {
  const { typeName, fields } = type.underlyingType ?? type
  if (typeName !== 'record' || fields === undefined) return `it is a ${typeName}, not a record`
  const made = new Map<AvroType, Shape>()
  const steps = fields.map(field => new Step(parts.get(field.name) ?? Part.none, shapeOf(field.type, made)))
  if (!steps.some(({ part }) => part === Part.payload)) return 'its record has no field payload'
  const created = fields.find(({ name }) => name === 'created')?.type
  const createdUnitsNs = ((created?.underlyingType ?? created)?.types ?? [created]).map(unitOf)
  for (const [at, { part, shape }] of steps.entries()) {
    const isReadable = part === Part.created ? createdUnitsNs.some(unit => unit > 0) : [shape, ...branchesOf(shape)].some(isText)
    if (part === Part.none || isReadable) continue
    const { name, type: fieldType } = fields[at]!
    return `its field ${name} is a ${fieldType.typeName}, not ${part === Part.created ? 'long' : part === Part.payload ? 'bytes' : 'string'}`
  }
  return { steps: steps.filter(({ shape }) => !shape.isEmpty), createdUnitsNs, isPayload: false }
}

function branchesOf(shape: Shape): readonly Shape[] {
  return shape.kind === Kind.union ? shape.parts : []
}

function isText({ kind }: Shape): boolean {
  return kind === Kind.bytes
}

/** Nanoseconds per unit of a number; 0 for another type. */
function unitOf(type: AvroType | undefined): number {
  const number = type?.underlyingType ?? type
  if (number?.typeName !== 'long' && number?.typeName !== 'int') return 0
  return unitsNs.get(type!.typeName.replace('logical:', '')) ?? 1
}

/** A member of a parsed JSON value; undefined if it has none. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}
