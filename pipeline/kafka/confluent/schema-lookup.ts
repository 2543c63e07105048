// Finds the schema of an id, with all that it refers to, and says how its messages are read.
//
// An answer makes a dead letter only where the registry itself gave it. What stands in its place answers 404, too, or 200 with a page, and
// that is an outage: each answer is looked at here, and nothing is asked for twice.

import { reasonOf } from '../failure.ts'
import { avroTypeOf, loadAvsc } from './avro-type.ts'
import { forbiddenSchema, missingReference, unknownSchema, unusableSchema } from './faults.ts'
import type { Decoding } from './framed-cursor.ts'
import { memberOf, planOf } from './record-plan.ts'
import type { RegistryConnection } from './registry-connection.ts'
import type { ForNow, LookUp } from './schemas.ts'

/** As Confluent's registry numbers its errors; a status 404 without them is of something else than a registry. */
const subjectNotFound = 40401
const versionNotFound = 40402
const schemaNotFound = 40403
/** A producer's schema makes no more requests of a message. */
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

/** What a registry says of a schema that it does not give. */
type Refusal = 'missing' | 'forbidden'

/** @param ownSubject that this user must be let at, whatever else it may not read */
export function openLookUp(connection: RegistryConnection, ownSubject: string): LookUp {
  async function lookUp(id: number, signal: AbortSignal): Promise<Decoding | ForNow> {
    const found = await ask(`/schemas/ids/${id}`, [schemaNotFound], signal)
    if (found === 'missing') return { forNow: unknownSchema(id) }
    if (found === 'forbidden') return { forNow: forbiddenSchema(id, 'it') }
    if (found.schemaType !== 'AVRO') return unusableSchema(id, `it is of the type ${found.schemaType}, and only AVRO is read`)

    const texts: string[] = []
    const seen = new Set<string>()
    /** Puts the texts of what is referred to in order: each behind what it refers to itself. */
    async function follow(references: readonly Reference[]): Promise<Decoding | ForNow | undefined> {
      for (const { subject, version } of references) {
        const name = `version ${version} of the subject ${subject}`
        if (seen.has(name)) continue
        seen.add(name)
        if (seen.size > referencesMax) return unusableSchema(id, `it refers to more than ${referencesMax} others`)
        // As Confluent's own clients ask: a schema that messages still refer to is given though it was deleted since.
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

  /** @param missing the codes of errors by which the registry says that it does not have what is asked for */
  async function ask(path: string, missing: readonly number[], signal: AbortSignal): Promise<FoundSchema | Refusal> {
    const { status, body } = await connection.get(path, signal)
    if (status === 404 && missing.some(code => code === memberOf(body, 'error_code'))) return 'missing'
    if (status === 403) {
      await checkLetIn(signal)
      return 'forbidden'
    }
    const found = status === 200 ? foundIn(body) : undefined
    if (found === undefined) throw connection.away(`it answered ${status} when it was asked for ${path}`)
    return found
  }

  /** Whether it is this one schema that the user may not read, or all of the registry. @throws SystemicError where it is all */
  async function checkLetIn(signal: AbortSignal): Promise<void> {
    const path = `/subjects/${encodeURIComponent(ownSubject)}/versions`
    const { status, body } = await connection.get(path, signal)
    if (status === 403) throw connection.notLetIn(`403, also for the subject ${ownSubject}`)
    const isLetIn = status === 200 ? Array.isArray(body) : status === 404 && memberOf(body, 'error_code') === subjectNotFound
    if (!isLetIn) throw connection.away(`it answered ${status} when it was asked for ${path}`)
  }

  return lookUp
}

function decodingOf(id: number, schema: string, others: readonly string[]): Decoding {
  const avsc = loadAvsc()
  try {
    const plan = planOf(avroTypeOf(avsc, [...others, schema]), JSON.parse(schema))
    return typeof plan === 'string' ? unusableSchema(id, plan) : plan
  } catch (error) {
    return unusableSchema(id, reasonOf(error).slice(0, reasonCharactersMax))
  }
}

/** @returns undefined where it is nothing that a registry answers */
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
