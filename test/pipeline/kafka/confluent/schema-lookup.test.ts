// What the answers of a registry to the question for a schema mean, and those of what stands in its place.

import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { openRegistry } from '../../../../pipeline/kafka/confluent/registry.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { type Answers, serveAnswers } from './fake-registry.ts'
import { emptyTree, ourPlan, planFor } from './framed-messages.ts'

const never = new AbortController().signal
const payload = { name: 'payload', type: 'bytes' }
const page = [200, '<html>welcome</html>'] as const

function recordOf(name: string, ...fields: readonly object[]): object {
  return { type: 'record', name, fields }
}

function schemaAnswer(schema: unknown, ...references: readonly object[]): readonly [number, object] {
  return [200, { schema: JSON.stringify(schema), references }]
}

/** A reference as the answer has it, and the path where it is. */
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
  const { lookUp } = openRegistry({ registry: url, registryTimeoutMs: 5000, topic: 'messages' }, pino({ level: 'silent' }))
  return { decoding: await lookUp(7, never), asked }
}

test('a schema and what it refers to are asked for once each', async () => {
  const { decoding, asked } = await lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: schemaAnswer(site) })
  expect(decoding).toEqual(readingPlan)
  expect(asked).toEqual(['/schemas/ids/7', referencePath('Site')])
})

test('a page that comes in place of the registry after its answer makes no schema unusable', async () => {
  const answers: Record<string, readonly [number, unknown]> = {}
  let asked = 0
  Object.defineProperty(answers, '/schemas/ids/7', { get: () => (asked++ === 0 ? schemaAnswer(envelopeSchema) : page) })
  expect((await lookUp(answers)).decoding).toEqual(ourPlan)
})

test('what two schemas refer to is one', async () => {
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

test('a schema that refers to others without end costs no more requests than there may be references', async () => {
  const many = Array.from({ length: 400 }, (_, at) => reference(`R${at}`))
  const answers = Object.fromEntries(many.map((_, at) => [referencePath(`R${at}`), schemaAnswer(recordOf(`R${at}`))]))
  const { decoding, asked } = await lookUp({ ...answers, '/schemas/ids/7': schemaAnswer(recordOf('Reading', payload), ...many) })
  expect(decoding).toMatchObject({ rule: 'schema-unusable', reason: expect.stringContaining('refers to more than 256 others') as string })
  expect(asked).toHaveLength(257)
})

test.each([40401, 40402, 40403])('a reference that the registry does not have makes a dead letter (%d)', async error_code => {
  const { decoding } = await lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: [404, { error_code, message: 'not found' }] })
  expect(decoding).toMatchObject({
    forNow: { rule: 'schema-unusable', reason: expect.stringContaining('has no version 1 of the subject Sites/all') as string },
  })
})

describe('an outage makes no dead letters', () => {
  test.each([
    ['a proxy that knows no such path', [404, 'default backend - 404']],
    ['a server that knows no such path', [404, { error_code: 404, message: 'HTTP 404 Not Found' }]],
    ['a gateway', [503, '<html>']],
    ['a page', page],
    ['an answer without a schema', [200, {}]],
    ['references that are none', [200, { schema: '{}', references: [{ name: 'Site' }] }]],
  ] as const)('%s, in place of the schema, or of what it refers to', async (_name, answer) => {
    await expect(lookUp({ '/schemas/ids/7': answer })).rejects.toThrow(LogUnavailableError)
    await expect(lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: answer })).rejects.toThrow(LogUnavailableError)
  })
})

describe('what this user may not read', () => {
  const forbidden = (what: string): object => ({
    forNow: { rule: 'schema-unusable', reason: `by the schema 7 no message can be read: this user may not read ${what}` },
  })

  test.each([
    ['is there', [200, [1]]],
    ['is not there yet', [404, { error_code: 40401, message: 'no subject' }]],
  ] as const)('makes dead letters while it may read our own subject, which %s', async (_name, answer) => {
    expect((await lookUp({ '/schemas/ids/7': refused, [own]: answer })).decoding).toMatchObject(forbidden('it'))
    const ofReference = await lookUp({ '/schemas/ids/7': reading, [referencePath('Site')]: refused, [own]: answer })
    expect(ofReference.decoding).toMatchObject(forbidden('version 1 of the subject Sites/all'))
  })

  test.each([
    ['may not', refused],
    ['is not known', [401, { error_code: 401, message: 'Unauthorized' }]],
  ] as const)('stops the writer where our own subject says that it %s either', async (_name, answer) => {
    await expect(lookUp({ '/schemas/ids/7': refused, [own]: answer })).rejects.toThrow(SystemicError)
  })

  test.each([
    ['a gateway', [503, '<html>']],
    ['a proxy', [404, 'default backend - 404']],
    ['a page', page],
  ] as const)('is not known while %s answers for our own subject', async (_name, answer) => {
    await expect(lookUp({ '/schemas/ids/7': refused, [own]: answer })).rejects.toThrow(LogUnavailableError)
  })

  test('a user whom the registry does not know stops the writer without another question', async () => {
    await expect(lookUp({ '/schemas/ids/7': [401, {}], [own]: [200, [1]] })).rejects.toThrow(SystemicError)
  })
})

test('defaults of records nested by name cost nothing', async () => {
  const nested = recordOf('Reading', { name: 'x', type: emptyTree(24, { default: {} }), default: {} }, payload)
  const startedMs = performance.now()
  const { decoding } = await lookUp({ '/schemas/ids/7': schemaAnswer(nested) })
  expect(decoding).toEqual(planFor(recordOf('Reading', payload)))
  expect(performance.now() - startedMs).toBeLessThan(1000)
})

test('a type may have any name', async () => {
  const named = recordOf('Reading', { name: 'site', type: recordOf('constructor', payload) }, payload)
  expect((await lookUp({ '/schemas/ids/7': schemaAnswer(named) })).decoding).toHaveProperty('steps')
})
