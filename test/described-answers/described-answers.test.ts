// That an answer which breaks its description is found, rule by rule, in this process and in another one.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import type { FastifyReply, FastifySchema } from 'fastify'
import { Type } from 'typebox'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorAnswers } from '../../config/http/error-schema.ts'
import { HttpError } from '../../config/http/errors.ts'
import { createServer, type HttpServer } from '../../config/http/server.ts'
import { createLogger } from '../../config/logger.ts'
import { emptyAnswer, headersOf } from '../../control-plane/answers.ts'
import { describedAnswers, takeFaults } from './faults.ts'

const thing = Type.Object({ id: Type.String(), size: Type.Optional(Type.Integer()) }, { description: 'A thing.' })
const schema: FastifySchema & { hide?: boolean } = {
  response: {
    200: { ...thing, ...headersOf({ ETag: 'The version.' }) },
    202: { content: { 'application/json': { schema: thing }, 'text/csv': { schema: Type.String() } } },
    204: emptyAnswer('It is gone.'),
    ...errorAnswers('forbidden'),
  },
}

const answers: Readonly<Record<string, (reply: FastifyReply) => FastifyReply>> = {
  right: reply => reply.header('etag', '"1"').send({ id: 'a', size: 1 }),
  'right-text': reply => reply.code(202).type('text/csv').send('id,size'),
  'right-coded': reply =>
    reply.code(202).headers({ 'content-encoding': 'gzip', 'content-type': 'application/json' }).send(gzipSync('{"id":"a"}')),
  'right-empty': reply => reply.code(204).send(),
  refused: () => {
    throw new HttpError('forbidden')
  },
  status: reply => reply.code(201).send({ id: 'a' }),
  conflict: () => {
    throw new HttpError('conflict')
  },
  header: reply => reply.send({ id: 'a' }),
  type: reply => reply.code(202).type('text/html').send('<p>a</p>'),
  'no-body': reply => reply.code(202).type('text/csv').send(),
  'key-missing': reply => reply.code(202).type('application/json').send('{"size":1}'),
  'of-another-type': reply => reply.code(202).type('application/json').send('{"id":"a","size":"1"}'),
  coded: reply => reply.code(202).headers({ 'content-encoding': 'gzip', 'content-type': 'application/json' }).send(gzipSync('{"size":1}')),
  'key-unnamed': reply => reply.header('etag', '"1"').send({ id: 'a', size: 1, key: 'secret' }),
  'key-unnamed-text': reply => reply.code(202).type('application/json').send('{"id":"a","key":"secret"}'),
  'changed-by-serializer': reply => reply.header('etag', '"1"').send({ id: 7 }),
}

const faults: Readonly<Record<string, RegExp>> = {
  status: /^GET \/:what answers 201 otherwise than described: the status is not one of 200, 202, 204, 400, 403, 503$/,
  conflict: /answers 409 .*the status is not one of/,
  header: /the header ETag is missing/,
  type: /the content type text\/html is not one of application\/json, text\/csv/,
  'no-body': /there is no body/,
  'key-missing': /the body must have required property 'id'/,
  'of-another-type': /the body\/size must be integer/,
  coded: /the body must have required property 'id'/,
  'key-unnamed': /\/key is sent, and the schema does not name it/,
  'key-unnamed-text': /\/key is sent, and the schema does not name it/,
  'changed-by-serializer': /\/id is sent/,
}

let app: HttpServer

beforeAll(async () => {
  app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  app.get('/:what', { schema }, (request, reply) => answers[(request.params as { what: string }).what]!(reply))
  app.get('/hidden/:what', { schema: { ...schema, hide: true } }, (request, reply) =>
    answers[(request.params as { what: string }).what]!(reply),
  )
  // A body where none is described.
  app.delete('/body', { schema: { response: { 204: emptyAnswer('It is gone.'), 200: emptyAnswer('It is gone.') } } }, (_request, reply) =>
    reply.code(200).send({} as unknown as undefined),
  )
  app.get('/refused-in-vain', { schema: { response: errorAnswers('forbidden') } }, (_request, reply) =>
    reply.code(403).header('content-type', 'application/json').send('{"error":"no"}'),
  )
  await app.ready()
})
afterAll(() => app.close())

test.each(Object.keys(answers).filter(what => faults[what] === undefined))('an answer as described is left as it is: %s', async what => {
  const { statusCode } = await app.inject({ url: `/${what}` })
  expect([statusCode < 500, takeFaults()]).toEqual([true, []])
})

test.each(Object.entries(faults))(
  'an answer that breaks its description becomes a 500 which says so, and is noted: %s',
  async (what, fault) => {
    const { statusCode, body } = await app.inject({ url: `/${what}` })
    expect([statusCode, body, takeFaults()]).toEqual([500, expect.stringMatching(fault), [expect.stringMatching(fault)]])
  },
)

test('a body where none is described, and an error of another shape, are noted', async () => {
  expect((await app.inject({ method: 'DELETE', url: '/body' })).body).toMatch(/^DELETE \/body .* there is a body, and none is described$/)
  expect((await app.inject('/refused-in-vain')).body).toMatch(/the body must have required property/)
  expect(takeFaults()).toHaveLength(2)
})

test('hidden routes answer what they like, and paths without a route as errors are described', async () => {
  expect((await app.inject('/hidden/header')).statusCode).toBe(200)
  expect((await app.inject('/none/at/all')).statusCode).toBe(404)
  expect((await app.inject({ method: 'PUT', url: '/right' })).statusCode).toBe(405)
  expect(takeFaults()).toEqual([])
})

test('a server in another process is held to its description, and its faults are noted for the test that started it', async () => {
  const script = `
    import { createServer } from ${JSON.stringify(new URL('../../config/http/server.ts', import.meta.url).href)}
    import { createLogger } from ${JSON.stringify(new URL('../../config/logger.ts', import.meta.url).href)}
    const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
    app.get('/', { schema: { response: { 204: { type: 'null' } } } }, async () => ({}))
    console.log((await app.inject('/')).statusCode)`
  const environment = { ...process.env, ...describedAnswers() }
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env: environment })
  expect([stdout, takeFaults()]).toEqual(['500\n', [expect.stringMatching(/^GET \/ answers 200 .* the status is not one of 204$/)]])
})
