// Which answers are about the lines of a write, and what is said of the others.

import { expect, test } from 'vitest'
import { openConnection } from '../../../sinks/influxdb/connection.ts'
import { classify, isAboutData, isBeyondRetention, namesReason, ResponseError } from '../../../sinks/influxdb/errors.ts'
import { defaults } from './store.ts'

const json = (code: string, message: string): string => JSON.stringify({ code, message })
const answerOf = (status: number, body: string): ResponseError =>
  new ResponseError('POST /api/v2/write', status, body, { org: 'plant', bucket: 'b' })
const plainHttp = '<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>'

test.each([
  ['a line that cannot be read', 400, json('invalid', "unable to parse 'a b 1': invalid field format"), true, true],
  ['a type', 422, json('unprocessable entity', 'partial write: field type conflict: … dropped=1'), true, true],
  ['a reason that is not said', 422, json('unprocessable entity', 'no'), true, false],
  ['a body that is too large, whoever says so', 413, '<html>', true, false],
  ['a body that is too large', 413, json('request too large', 'too large'), true, false],
  ["a proxy's page", 400, plainHttp, false, false],
  ["a proxy's page that speaks of lines", 400, "unable to parse 'a b 1'", false, false],
  ["a proxy's text", 422, 'no', false, false],
  ["a proxy's JSON", 422, json('denied', 'partial write: no'), false, false],
  ['another fault of the request', 400, json('invalid', 'organization name "plant" not found'), false, false],
  ['the server', 500, json('invalid', "unable to parse 'a b 1'"), false, false],
])('%s: %i', (_what, status, body, aboutData, named) => {
  const error = answerOf(status, body)
  expect([isAboutData(error), namesReason(error)]).toEqual([aboutData, named])
})

test.each([
  [400, 'Client sent an HTTP request to an HTTPS server.', 'systemic', /use https in store\.url \(SVC_TIMESERIES_URL\)$/],
  [400, plainHttp, 'systemic', /a server in front of InfluxDB .*: use https in store\.url \(SVC_TIMESERIES_URL\)$/],
  [400, '<html>bad request', 'transient', /^the answer comes from a server in front of InfluxDB \(400 to .*: check the proxy/],
  [422, 'no', 'transient', /a server in front of InfluxDB/],
  [413, '<html>', 'transient', /a server in front of InfluxDB/],
  [
    400,
    json('invalid', 'organization name "plant" not found'),
    'systemic',
    /no organisation "plant" .*: correct org in store\.url \(SVC_TIMESERIES_URL\)/,
  ],
  [
    404,
    json('not found', 'organization name "plant" not found'),
    'systemic',
    /no organisation "plant" .*: correct org in store\.url \(SVC_TIMESERIES_URL\)/,
  ],
  [404, json('not found', 'bucket "b" not found'), 'systemic', /no bucket "b" .*: correct bucket in store\.url \(SVC_TIMESERIES_URL\)/],
  [
    404,
    json('not found', 'could not find bucket "c"'),
    'systemic',
    /no bucket "c" .*: correct bucket in store\.url \(SVC_TIMESERIES_URL\)/,
  ],
  [404, '<html>', 'systemic', /^InfluxDB answered 404 to .*; correct store\.url \(SVC_TIMESERIES_URL\)/],
  [
    401,
    json('unauthorized', 'unauthorized access'),
    'systemic',
    /does not know the token \(401 .*unauthorized.*\): correct store\.token \(SVC_TIMESERIES_TOKEN\)/,
  ],
])('%i, %s: %s', (status, body, meaning, sentence) => {
  const error = answerOf(status, body)
  expect([classify(error), error.message]).toEqual([meaning, expect.stringMatching(sentence)])
})

test.each([
  ['dropped 3 points outside retention policy of duration 1440h0m0s - oldest point …', true],
  ['shard 7 is pending deletion dropped=3', true],
  ['field type conflict: input field "retention policy" on measurement "a" is type string, already exists as type float dropped=1', false],
  ['field type conflict: input field "shard 7 is pending deletion" on measurement "a" is type string, …', false],
])('recognizes refusals for age: partial write: %s', (said, isIt) => {
  const message = `failure writing points to database: partial write: ${said}`
  expect(isBeyondRetention(answerOf(422, json('unprocessable entity', message)))).toBe(isIt)
})

test('a URL without a bucket is systemic, before anything is sent', async () => {
  const opening = openConnection({ ...defaults, url: 'http://127.0.0.1:9/?org=plant', token: 'geheim' }, 'test')
  const error = await opening.catch((error: unknown) => error)
  expect([classify(error), (error as Error).message]).toEqual(['systemic', expect.stringMatching(/store.url.* has no bucket: write it as/)])
})
