// Looks up a schema by id, with its references, and plans how to decode its messages.
//
// Only an answer of the registry itself may turn a message into a dead letter. Another server at its address may also answer 404, or 200 with a page;
// that counts as an outage. So each answer is checked here, and nothing is requested twice.

import { createRequire } from 'node:module'
import { reasonOf } from '../failure.ts'
import type { AvroType } from './avro/shape.ts'
import { forbiddenSchema, missingReference, unknownSchema, unusableSchema } from './faults.ts'
import type { Decoding } from './framed-cursor.ts'
import { jsonPlan, memberOf, planOf, unitsNs } from './record-plan.ts'
import type { RegistryConnection } from './registry-connection.ts'
import type { ForNow, LookUp } from './schemas.ts'

/** Error codes of Confluent's registry; a 404 without them comes from another kind of server. */
const subjectNotFound = 40401
const versionNotFound = 40402
const schemaNotFound = 40403
/** Limits the requests that one schema of a producer can cause. */
const referencesMax = 256
const reasonCharactersMax = 300

interface Reference {
  readonly subject: string
  readonly version: number
}

interface FoundSchema {
  readonly schema: string
  readonly schemaType: string
  readonly references: readonly Reference[]
}

/** Why the registry does not return a schema. */
type Refusal = 'missing' | 'forbidden'

/** @param ownSubject the subject that this user must be able to read, even if others are forbidden */
export function openLookUp(connection: RegistryConnection, ownSubject: string): LookUp {
  async function lookUp(id: number, signal: AbortSignal): Promise<Decoding | ForNow> {
    const found = await ask(`/schemas/ids/${id}`, [schemaNotFound], signal)
    if (found === 'missing') return { forNow: unknownSchema(id) }
    if (found === 'forbidden') return { forNow: forbiddenSchema(id, 'it') }
    if (found.schemaType === 'JSON') return jsonPlan
    if (found.schemaType !== 'AVRO')
      return unusableSchema(id, `it is of the type ${found.schemaType}, but only AVRO and JSON are supported`)

    const texts: string[] = []
    const seen = new Set<string>()
    /** Collects the texts of references in order: each after its own references. */
    async function follow(references: readonly Reference[]): Promise<Decoding | ForNow | undefined> {
      for (const { subject, version } of references) {
        const name = `version ${version} of the subject ${subject}`
        if (seen.has(name)) continue
        seen.add(name)
        if (seen.size > referencesMax) return unusableSchema(id, `it has more than ${referencesMax} references`)
        // Like Confluent's own clients, also asks for deleted schemas, because stored messages may still use them.
        const path = `/subjects/${encodeURIComponent(subject)}/versions/${version}?deleted=true`
        const other = await ask(path, [subjectNotFound, versionNotFound, schemaNotFound], signal)
        if (other === 'missing') return { forNow: missingReference(id, name) }
        if (other === 'forbidden') return { forNow: forbiddenSchema(id, name) }
        const fault = await follow(other.references)
        if (fault !== undefined) return fault
        texts.push(other.schema)
      }
      return undefined
    }
    const fault = await follow(found.references)
    return fault ?? decodingOf(id, found.schema, texts)
  }

  /** @param missing the error codes with which the registry reports that the schema does not exist */
  async function ask(path: string, missing: readonly number[], signal: AbortSignal): Promise<FoundSchema | Refusal> {
    const { status, body } = await connection.get(path, signal)
    if (status === 404 && missing.some(code => code === memberOf(body, 'error_code'))) return 'missing'
    if (status === 403) {
      await checkLetIn(signal)
      return 'forbidden'
    }
    const found = status === 200 ? foundIn(body) : undefined
    if (found === undefined) throw connection.away(`it answered ${status} to a request for ${path}`)
    return found
  }

  /** Checks whether the user is denied this one schema or the whole registry. @throws SystemicError if it is the whole registry */
  async function checkLetIn(signal: AbortSignal): Promise<void> {
    const path = `/subjects/${encodeURIComponent(ownSubject)}/versions`
    const { status, body } = await connection.get(path, signal)
    if (status === 403) throw connection.notLetIn(`403, also for the subject ${ownSubject}`)
    const isLetIn = status === 200 ? Array.isArray(body) : status === 404 && memberOf(body, 'error_code') === subjectNotFound
    if (!isLetIn) throw connection.away(`it answered ${status} to a request for ${path}`)
  }

  return lookUp
}

function decodingOf(id: number, schema: string, others: readonly string[]): Decoding {
  const avsc = loadAvsc()
  try {
    const plan = planOf(avroTypeOf([...others, schema], avsc))
    return typeof plan === 'string' ? unusableSchema(id, plan) : plan
  } catch (error) {
    return unusableSchema(id, reasonOf(error).slice(0, reasonCharactersMax))
  }
}

/** @returns undefined if the body is not an answer of a registry */
function foundIn(body: unknown): FoundSchema | undefined {
  const schema = memberOf(body, 'schema')
  const schemaType = memberOf(body, 'schemaType') ?? 'AVRO'
  const references = memberOf(body, 'references') ?? []
  if (typeof schema !== 'string' || typeof schemaType !== 'string' || !Array.isArray(references)) return undefined
  return references.every(isReference) ? { schema, schemaType, references } : undefined
}

function isReference(value: unknown): value is Reference {
  return typeof memberOf(value, 'subject') === 'string' && Number.isInteger(memberOf(value, 'version'))
}

interface Avsc {
  readonly Type: { forSchema(schema: unknown, options: { registry: object; logicalTypes: object }): AvroType }
  readonly types: { readonly LogicalType: new (...of: unknown[]) => AvroType }
}

/** The library's own copy of avsc, so that both parse a schema in the same way. Loaded on first use. */
function loadAvsc(): Avsc {
  const require = createRequire(import.meta.url)
  return createRequire(require.resolve('@kafkajs/confluent-schema-registry'))('avsc') as Avsc
}

/**
 * The type of a schema. avsc drops the logical types that it is not given.
 *
 * @param texts the schema last, preceded by its references, each after its own references
 * @throws Error if they are not Avro schemas; its message should be shown, because the texts come from a producer
 */
export function avroTypeOf(texts: readonly string[], { Type, types } = loadAvsc()): AvroType {
  // Without a prototype, because a schema may contain a type named `constructor`.
  const options = { registry: Object.create(null) as object, logicalTypes: Object.create(null) as Record<string, unknown> }
  for (const name of unitsNs.keys()) options.logicalTypes[name] = class extends types.LogicalType {}
  let type: AvroType | undefined
  for (const text of texts) type = Type.forSchema(parseWithoutDefaults(text), options)
  if (type === undefined) throw new Error('no schema given')
  return type
}

/** Removes defaults, which are not needed here: avsc expands each of them, which for records nested by name takes 2^n steps for n lines of schema. */
function parseWithoutDefaults(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) => (key === 'default' ? undefined : value))
}
