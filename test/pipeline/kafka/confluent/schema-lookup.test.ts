// The meaning of a registry's answers to the request for a schema, and of those of other servers at its address.

import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { jsonPlan } from '../../../../pipeline/kafka/confluent/record-plan.ts'
import { openRegistry } from '../../../../pipeline/kafka/confluent/registry.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { type Answers, serveAnswers } from './fake-registry.ts'
import { ourPlan, planFor } from './framed-messages.ts'

const never = new AbortController().signal
const payload = { name: 'payload', type: 'bytes' }
const page = [200, '<html>welcome</html>'] as const

function recordOf(name: string, ...fields: readonly object[]): object {
  return { type: 'record', name, fields }
}

function schemaAnswer(schema: unknown, ...references: readonly object[]): readonly [number, object] {
  return [200, { schema: JSON.stringify(schema), references }]
}

/** A reference as in the answer, and its path. */
const reference = (name: string): object => ({ name, subject: `${name}s/all`, version: 1 })
const referencePath = (name: string): string => `/subjects/${name}s%2Fall/versions/1`
const reading = schemaAnswer(recordOf('Reading', { name: 'site', type: 'Site' }, payload), reference('Site'))
const site = recordOf('Site', { name: 'floor', type: 'int' })
const readingPlan = planFor(recordOf('Reading', { name: 'site', type: site }, payload))

const own = '/subjects/messages-value/versions'
const refused = [403, { error_code: 40301, message: 'User is denied operation Read' }] as const

/** Looks up the schema 7. */
async function lookUp(answers: Answers): Promise<{ decoding: unknown; asked: string[] }> {
  const { url, asked } = await serveAnswers(answers)
  const { lookUp } = openRegistry({ registry: url, registryTimeoutMs: 60_000, topic: 'messages' }, pino({ level: 'silent' }))
  return { decoding: await lookUp(7, never), asked }
}

test('a schema and its references are requested once each', async () => {
  const { decoding, asked } = await lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: schemaAnswer(site) })
  expect(decoding).toEqual(readingPlan)
  expect(asked).toEqual(['/schemas/ids/7', referencePath('Site')])
})

test('of a JSON Schema nothing but its type matters', async () => {
  const answer = [200, { schema: 'not even JSON', schemaType: 'JSON', references: [reference('Site')] }] as const
  expect(await lookUp({ '/schemas/ids/7': answer })).toEqual({ decoding: jsonPlan, asked: ['/schemas/ids/7'] })
})

test('a web page after an answer of the registry makes no schema unusable', async () => {
  const answers: Record<string, readonly [number, unknown]> = {}
  let asked = 0
  Object.defineProperty(answers, '/schemas/ids/7', { get: () => (asked++ === 0 ? schemaAnswer(envelopeSchema) : page) })
  expect((await lookUp(answers)).decoding).toEqual(ourPlan)
})

test('a schema that two others refer to is requested once', async () => {
  const east = schemaAnswer(recordOf('East', { name: 'site', type: 'Site' }), reference('Site'))
  const west = schemaAnswer(recordOf('West', { name: 'site', type: 'Site' }), reference('Site'))
  const both = recordOf('Both', { name: 'east', type: 'East' }, { name: 'west', type: 'West' }, payload)
  const { decoding, asked } = await lookUp({
    '/schemas/ids/7': schemaAnswer(both, reference('East'), reference('West')),
    [referencePath('East')]: east,
    [referencePath('West')]: west,
    [referencePath('Site')]: schemaAnswer(site),
  })
  expect(decoding).toHaveProperty('steps')
  expect(asked).toEqual(['/schemas/ids/7', ...['East', 'Site', 'West'].map(referencePath)])
})

test('a schema with endless references causes no more requests than references are allowed', async () => {
  const many = Array.from({ length: 400 }, (_, at) => reference(`R${at}`))
  const answers = Object.fromEntries(many.map((_, at) => [referencePath(`R${at}`), schemaAnswer(recordOf(`R${at}`))]))
  const { decoding, asked } = await lookUp({ ...answers, '/schemas/ids/7': schemaAnswer(recordOf('Reading', payload), ...many) })
  expect(decoding).toMatchObject({ rule: 'schema-unusable', reason: expect.stringContaining('has more than 256 references') as string })
  expect(asked).toHaveLength(257)
})

test.each([40401, 40402, 40403])('a reference that the registry does not have makes a dead letter (%d)', async error_code => {
  const { decoding } = await lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: [404, { error_code, message: 'not found' }] })
  expect(decoding).toMatchObject({
    forNow: { rule: 'schema-unusable', reason: expect.stringContaining('does not have version 1 of the subject Sites/all') as string },
  })
})

describe('an outage makes no dead letters', () => {
  test.each([
    ['a proxy that does not know the path', [404, 'default backend - 404']],
    ['a server that does not know the path', [404, { error_code: 404, message: 'HTTP 404 Not Found' }]],
    ['a gateway', [503, '<html>']],
    ['a page', page],
    ['an answer without a schema', [200, {}]],
    ['invalid references', [200, { schema: '{}', references: [{ name: 'Site' }] }]],
  ] as const)('%s, in place of the schema or of a reference', async (_name, answer) => {
    await expect(lookUp({ '/schemas/ids/7': answer })).rejects.toThrow(LogUnavailableError)
    await expect(lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: answer })).rejects.toThrow(LogUnavailableError)
  })
})

describe('schemas that this user may not read', () => {
  const forbidden = (what: string): object => ({
    forNow: { rule: 'schema-unusable', reason: `messages of the schema 7 cannot be decoded: this user is not authorized to read ${what}` },
  })

  test.each([
    ['exists', [200, [1]]],
    ['does not exist yet', [404, { error_code: 40401, message: 'no subject' }]],
  ] as const)('makes dead letters if it may read our own subject, which %s', async (_name, answer) => {
    expect((await lookUp({ '/schemas/ids/7': refused, [own]: answer })).decoding).toMatchObject(forbidden('it'))
    const referring = await lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: refused, [own]: answer })
    expect(referring.decoding).toMatchObject(forbidden('version 1 of the subject Sites/all'))
  })

  test.each([
    ['is forbidden', refused],
    ['is unauthorized', [401, { error_code: 401, message: 'Unauthorized' }]],
  ] as const)('stops the writer if our own subject %s as well', async (_name, answer) => {
    await expect(lookUp({ '/schemas/ids/7': refused, [own]: answer })).rejects.toThrow(SystemicError)
  })

  test.each([
    ['a gateway', [503, '<html>']],
    ['a proxy', [404, 'default backend - 404']],
    ['a page', page],
  ] as const)('is unknown while %s answers for our own subject', async (_name, answer) => {
    await expect(lookUp({ '/schemas/ids/7': refused, [own]: answer })).rejects.toThrow(LogUnavailableError)
  })

  test('a user whom the registry does not know stops the writer without another request', async () => {
    await expect(lookUp({ '/schemas/ids/7': [401, {}], [own]: [200, [1]] })).rejects.toThrow(SystemicError)
  })
})

test('a type may have any name', async () => {
  const named = recordOf('Reading', { name: 'site', type: recordOf('constructor', payload) }, payload)
  expect((await lookUp({ '/schemas/ids/7': schemaAnswer(named) })).decoding).toHaveProperty('steps')
})
