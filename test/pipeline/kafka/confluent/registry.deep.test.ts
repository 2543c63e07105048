// Requests to a real schema registry and the meaning of its answers; and those of other servers at its address.

import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { unknownSchema } from '../../../../pipeline/kafka/confluent/faults.ts'
import type { Decoding } from '../../../../pipeline/kafka/confluent/framed-cursor.ts'
import { openRegistry, type Registry } from '../../../../pipeline/kafka/confluent/registry.ts'
import type { ForNow } from '../../../../pipeline/kafka/confluent/schemas.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { freePort } from '../../../servers/process/free-port.ts'
import { describeWithRegistry } from '../../../servers/registry.ts'
import { serve, serveAnswers } from './fake-registry.ts'
import { planFor } from './framed-messages.ts'

const never = new AbortController().signal

function open(url: string, more: { registryUsername?: string; registryPassword?: string; registryTimeoutMs?: number } = {}): Registry {
  return openRegistry({ registry: url, registryTimeoutMs: 60_000, topic: 'messages', ...more }, pino({ level: 'silent' }))
}

function reasonOf(decoding: Decoding | ForNow): string | undefined {
  return 'rule' in decoding ? `${decoding.rule}: ${decoding.reason}` : undefined
}

describeWithRegistry('on a schema registry', registry => {
  const fresh = (): string => `topic-${crypto.randomUUID()}-value`
  const client = (): SchemaRegistry => new SchemaRegistry({ host: registry.url })

  async function levelOf(subject: string): Promise<unknown> {
    const answer = await fetch(`${registry.url}/config/${subject}`)
    return ((await answer.json()) as { compatibilityLevel: string }).compatibilityLevel
  }

  test('our schema is registered once, compatible in both directions, and can be read by its id', async () => {
    const subject = fresh()
    const ids = await Promise.all([1, 2, 3].map(() => open(registry.url).register(subject)))
    expect(new Set(ids).size).toBe(1)
    expect(await open(registry.url).register(subject)).toBe(ids[0])
    expect(await (await fetch(`${registry.url}/subjects/${subject}/versions`)).json()).toEqual([1])
    expect(await levelOf(subject)).toBe('FULL')
    expect(await open(registry.url).lookUp(ids[0]!, never)).toEqual(planFor(envelopeSchema))
  })

  test('a subject that has a level keeps it', async () => {
    const subject = fresh()
    const older = { ...envelopeSchema, fields: envelopeSchema.fields.filter(({ name }) => name !== 'protocol') }
    await client().register(older, { subject, compatibility: 'BACKWARD' as never })
    const id = await open(registry.url).register(subject)
    expect(id).toBeGreaterThan(0)
    expect(await levelOf(subject)).toBe('BACKWARD')
  })

  test('a subject with a schema that is incompatible with ours stops the start', async () => {
    const subject = fresh()
    const foreign = { ...envelopeSchema, fields: [{ name: 'reading', type: 'double' }] }
    await client().register(foreign, { subject, compatibility: 'FULL' as never })
    const registering = open(registry.url).register(subject)
    await expect(registering).rejects.toThrow(SystemicError)
    await expect(registering).rejects.toThrow(`rejects the schema for the subject ${subject}`)
  })

  test('an unknown id has no schema', async () => {
    for (const id of [2 ** 31 - 1, 0]) expect(await open(registry.url).lookUp(id, never)).toEqual({ forNow: unknownSchema(id) })
  })

  test('messages cannot be decoded with a schema of another kind, or without a payload', async () => {
    const lookUp = async (type: SchemaType, schema: string): Promise<string | undefined> => {
      const { id } = await client().register({ type, schema } as never, { subject: fresh() })
      return reasonOf(await open(registry.url).lookUp(id, never))
    }
    expect(await lookUp(SchemaType.PROTOBUF, 'syntax = "proto3"; message Reading { string channel = 1; }')).toMatch(
      /^schema-unusable: .*PROTOBUF/,
    )
    expect(await lookUp(SchemaType.AVRO, '{"type":"record","name":"Reading","namespace":"plants","fields":[]}')).toMatch(/no field payload/)
  })

  test('referenced schemas are found, too', async () => {
    const site = { type: 'record', name: 'Site', namespace: 'plants', fields: [{ name: 'floor', type: 'int' }] }
    const reading = {
      type: 'record',
      name: 'Reading',
      namespace: 'plants',
      fields: [
        { name: 'site', type: 'plants.Site' },
        { name: 'payload', type: 'bytes' },
      ],
    }
    const subject = fresh()
    await client().register({ type: SchemaType.AVRO, schema: JSON.stringify(site) }, { subject })
    const references = [{ name: 'plants.Site', subject, version: 1 }]
    const { id } = await client().register({ type: SchemaType.AVRO, schema: JSON.stringify(reading), references }, { subject: fresh() })
    const expected = planFor({ ...reading, fields: [{ name: 'site', type: site }, reading.fields[1]] })
    expect(await open(registry.url).lookUp(id, never)).toEqual(expected)
  })

  test('an abort ends a request', async () => {
    const reason = new Error('it is over')
    await expect(open(registry.url).lookUp(1, AbortSignal.abort(reason))).rejects.toBe(reason)
  })
})

describe('an outage makes no dead letters', () => {
  test.each([
    ['a missing registry', undefined],
    ['a proxy that knows no such path', [404, 'default backend - 404']],
    ['a server that knows no such path', [404, '{"error_code":404,"message":"HTTP 404 Not Found"}']],
    ['one that is overloaded', [429, '{"error_code":429}']],
    ['one without its store', [500, '{"error_code":50001,"message":"Error in the backend data store"}']],
    ['a gateway', [502, '<html>']],
    ['an answer of another server', [200, '<html>welcome</html>']],
    ['an answer without a schema', [200, '{}']],
  ] as const)('%s', async (_name, answer) => {
    const url =
      answer === undefined
        ? `http://127.0.0.1:${await freePort()}`
        : await serve((_request, response) => void response.writeHead(answer[0], { 'content-type': 'application/json' }).end(answer[1]))
    for (const asking of [open(url).lookUp(7, never), open(url).register('messages-value')]) {
      const error: unknown = await asking.then(undefined, (error: unknown) => error)
      expect(error).toBeInstanceOf(LogUnavailableError)
      expect(String(error)).toContain(`the schema registry at ${url} is unavailable (`)
    }
  })

  test('a registry that does not answer fails in time', async () => {
    const url = await serve(() => undefined)
    const impatient = open(url, { registryTimeoutMs: 150 })
    await expect(impatient.lookUp(7, never)).rejects.toThrow('no answer within 150 ms')
    const registering = impatient.register('messages-value')
    await expect(registering).rejects.toThrow(LogUnavailableError)
    await expect(registering).rejects.toThrow('Timeout (150ms)')
  })
})

test('refused credentials are reported, and no error contains the password', async () => {
  const seen = new Set<string | undefined>()
  const url = await serve((request, response) => {
    seen.add(request.headers.authorization)
    response.writeHead(401, { 'content-type': 'application/json' }).end('{"error_code":401,"message":"Unauthorized"}')
  })
  const registry = open(`${url}/base/`, { registryUsername: 'sluice', registryPassword: 'open sesame' })
  for (const asking of [registry.lookUp(7, never), registry.register('messages-value')]) {
    const error: unknown = await asking.then(undefined, (error: unknown) => error)
    expect(error).toBeInstanceOf(SystemicError)
    expect(String(error)).toContain('correct log.registry_username (SVC_LOG_REGISTRY_USERNAME)')
    expect(String(error)).not.toContain('open sesame')
  }
  expect([...seen]).toEqual([`Basic ${Buffer.from('sluice:open sesame').toString('base64')}`])
})

test('a level that may not be set does not stop the start', async () => {
  let registered = false
  const asked: string[] = []
  const url = await serve((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    const answer = (status: number, body: object): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.method === 'PUT') return answer(403, { error_code: 403, message: 'not allowed' })
    if (request.url === '/config/messages-value') return answer(404, { error_code: 40408, message: 'no level' })
    if (request.url!.endsWith('/versions')) registered = true
    return registered ? answer(200, { id: 5 }) : answer(404, { error_code: 40401, message: 'no subject' })
  })
  expect(await open(url).register('messages-value')).toBe(5)
  expect(asked).toEqual([
    'POST /subjects/messages-value',
    'GET /config/messages-value',
    'POST /subjects/messages-value/versions',
    'PUT /config/messages-value',
    'POST /subjects/messages-value',
  ])
})

test('a level that another start sets between two requests is accepted', async () => {
  const levels = ['NONE', 'FULL']
  const url = await serve((request, response) => {
    const answer = (status: number, body: object): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.url === '/config/messages-value') return answer(200, { compatibilityLevel: levels.shift() ?? 'FULL' })
    return request.url!.endsWith('/versions') ? answer(200, { id: 5 }) : answer(404, { error_code: 40401, message: 'no subject' })
  })
  expect(await open(url).register('messages-value')).toBe(5)
})

test.each([null, -5, 2 ** 31, 1.5, '7', undefined])('an invalid id is not accepted, and no message is framed with it (%j)', async id => {
  const known = await serveAnswers({ '/subjects/messages-value': [200, { id }] })
  const fresh = await serveAnswers({
    '/subjects/messages-value': [404, { error_code: 40401, message: 'no subject' }],
    '/config/messages-value': [200, { compatibilityLevel: 'FULL' }],
    '/subjects/messages-value/versions': [200, { id }],
  })
  for (const { url } of [known, fresh]) {
    const registering = open(url).register('messages-value')
    await expect(registering).rejects.toThrow(LogUnavailableError)
    await expect(registering).rejects.toThrow('it returned no id')
  }
})

test.each([0, 2 ** 31 - 1])('the smallest and the largest id are valid (%d)', async id => {
  const { url } = await serveAnswers({ '/subjects/messages-value': [200, { id }] })
  expect(await open(url).register('messages-value')).toBe(id)
})
