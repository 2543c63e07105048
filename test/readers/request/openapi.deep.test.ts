// Requests made from /openapi.json to the embedded store; and that an answer which is not as described is found.

import { expect, test } from 'vitest'
import { openEmbeddedSite } from '../postgres/site.ts'
import { owner } from '../served.ts'
import { deviation, type Operation, type Request } from './described-requests.ts'
import { requestSuite } from './request-suite.ts'

const bench = requestSuite(openEmbeddedSite, 300)

test('an answer that differs from the description is found', async () => {
  const { operation } = bench
  const request: Request = { query: [], accept: '*/*' }
  const answer = await bench.ask(request, owner)
  expect(deviation(operation, request, answer)).toBeUndefined()
  const changed = (from: RegExp, to: string): Operation => {
    const text = JSON.stringify(operation)
    expect(text).toMatch(from)
    return JSON.parse(text.replace(from, to)) as Operation
  }
  expect(deviation(changed(/"200":/, '"201":'), request, answer)).toMatch(/status 200/)
  expect(deviation(changed(/"application\/json":/, '"text/html":'), request, answer)).toMatch(/type application\/json/)
  expect(deviation(changed(/"Value":\{"type":"number",/, '"Value":{"type":"string",'), request, answer)).toMatch(/messages/)
  expect(deviation(changed(/"Unit":\{/, '"Units":{'), request, answer)).toMatch(/messages/)
  expect(deviation(changed(/"limit":\{/, '"limits":{'), request, answer)).toMatch(/additional/)
  expect(deviation(operation, { ...request, query: [{ name: 'x', escaped: 'y', isRight: false }] }, answer)).toMatch(/wrong parameter/)
})
