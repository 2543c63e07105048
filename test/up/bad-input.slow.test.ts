// Input of strangers, beginners and broken devices: the right status, an explanation of what to do, and the process stays up.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CallOptions, call, makeSite, publish, readUntil, type Site } from './operator.ts'
import { type Platform, startedFolder, startPlatform } from './platform.ts'

let folder: Awaited<ReturnType<typeof startedFolder>>
let platform: Platform
let site: Site
let foreign: Site

beforeAll(async () => {
  folder = await startedFolder()
  platform = await startPlatform({ data: folder.path })
  site = await makeSite(platform.url)
  foreign = await makeSite(platform.url)
})

afterAll(async () => {
  expect(await platform.stop()).toBe(0)
  await folder[Symbol.asyncDispose]()
})

const absent = '00000000-0000-4000-8000-000000000000'
const twoMebibytes = `[${JSON.stringify({ name: 'x'.repeat(2 * 1024 * 1024) })}]`

type Case = [name: string, status: number, sentence: RegExp, method: string, path: () => string, options: () => CallOptions]

const cases: Case[] = [
  ['malformed JSON', 400, /JSON/, 'POST', () => '/things/bulk', () => ({ authorization: site.owner, body: '[{"name":' })],
  [
    'a name of the wrong type',
    400,
    /\/0\/name|string/,
    'POST',
    () => '/things/bulk',
    () => ({ authorization: site.owner, body: [{ name: 5 }] }),
  ],
  [
    'a body that is not JSON',
    415,
    /application\/json/,
    'POST',
    () => '/things/bulk',
    () => ({ authorization: site.owner, type: 'text/plain', body: 'hello' }),
  ],
  ['a body of 2 MiB', 413, /1 MiB|1,?048,?576/, 'POST', () => '/things/bulk', () => ({ authorization: site.owner, body: twoMebibytes })],
  [
    'a payload of 2 MiB',
    413,
    /256 KiB|262,?144/,
    'POST',
    () => `/channels/${site.channel}/messages`,
    () => ({ authorization: site.device, type: 'application/senml+json', body: twoMebibytes }),
  ],
  [
    'an empty payload',
    400,
    /empty/,
    'POST',
    () => `/channels/${site.channel}/messages`,
    () => ({ authorization: site.device, type: 'application/senml+json', body: '' }),
  ],
  [
    'a payload type that is not read',
    415,
    /application\/senml\+json/,
    'POST',
    () => `/channels/${site.channel}/messages`,
    () => ({ authorization: site.device, type: 'text/csv', body: '1,2' }),
  ],
  [
    'a subtopic with a wildcard',
    400,
    /\*/,
    'POST',
    () => `/channels/${site.channel}/messages/a/*`,
    () => ({ authorization: site.device, type: 'application/senml+json', body: [] }),
  ],
  [
    'an invalid channel id',
    400,
    /channel/,
    'POST',
    () => '/channels/my-channel/messages',
    () => ({ authorization: site.device, type: 'application/senml+json', body: [] }),
  ],
  [
    'limit=-1 on the reader',
    400,
    /limit/,
    'GET',
    () => `/channels/${site.channel}/messages?limit=-1`,
    () => ({ authorization: site.owner }),
  ],
  [
    'limit=abc on the reader',
    400,
    /limit/,
    'GET',
    () => `/channels/${site.channel}/messages?limit=abc`,
    () => ({ authorization: site.owner }),
  ],
  [
    'a repeated parameter on the reader',
    400,
    /offset/,
    'GET',
    () => `/channels/${site.channel}/messages?offset=1&offset=2`,
    () => ({ authorization: site.owner }),
  ],
  [
    'an unknown parameter on the reader',
    400,
    /limit/,
    'GET',
    () => `/channels/${site.channel}/messages?limmit=5`,
    () => ({ authorization: site.owner }),
  ],
  ['limit=-1 on the things', 400, /limit/, 'GET', () => '/things?limit=-1', () => ({ authorization: site.owner })],
  ['limit=abc on the things', 400, /limit/, 'GET', () => '/things?limit=abc', () => ({ authorization: site.owner })],
  ['limit=101 on the things', 400, /limit/, 'GET', () => '/things?limit=101', () => ({ authorization: site.owner })],
  ['a repeated parameter on the things', 400, /limit/, 'GET', () => '/things?limit=1&limit=2', () => ({ authorization: site.owner })],
  ['no token', 401, /./, 'GET', () => '/things', () => ({})],
  ['a wrong token', 401, /./, 'GET', () => '/things', () => ({ authorization: 'Bearer abc.def.ghi' })],
  [
    'a wrong key',
    401,
    /./,
    'POST',
    () => `/channels/${site.channel}/messages`,
    () => ({ authorization: `Thing ${absent}`, type: 'application/senml+json', body: [{ n: 'a', v: 1 }] }),
  ],
  [
    'no key',
    401,
    /./,
    'POST',
    () => `/channels/${site.channel}/messages`,
    () => ({ type: 'application/senml+json', body: [{ n: 'a', v: 1 }] }),
  ],
  [
    "another user's thing",
    403,
    /authorization over the entity/,
    'GET',
    () => `/things/${foreign.thing}`,
    () => ({ authorization: site.owner }),
  ],
  [
    'a thing that does not exist',
    403,
    /authorization over the entity/,
    'GET',
    () => `/things/${absent}`,
    () => ({ authorization: site.owner }),
  ],
  [
    "another user's channel, as publisher",
    403,
    /authorization over the entity/,
    'POST',
    () => `/channels/${foreign.channel}/messages`,
    () => ({ authorization: site.device, type: 'application/senml+json', body: [{ n: 'a', v: 1 }] }),
  ],
  [
    'a channel that does not exist, as publisher',
    403,
    /authorization over the entity/,
    'POST',
    () => `/channels/${absent}/messages`,
    () => ({ authorization: site.device, type: 'application/senml+json', body: [{ n: 'a', v: 1 }] }),
  ],
  [
    "another user's channel, as reader",
    403,
    /authorization over the entity/,
    'GET',
    () => `/channels/${foreign.channel}/messages`,
    () => ({ authorization: site.owner }),
  ],
  [
    "another user's thing in the body of connect",
    403,
    /authorization over the entity/,
    'POST',
    () => '/connect',
    () => ({ authorization: site.owner, body: { channel_ids: [site.channel], thing_ids: [foreign.thing] } }),
  ],
  ['an unknown path', 404, /./, 'GET', () => '/nothing/here', () => ({})],
]

test.each(cases)('%s answers %i and says what to do', async (_name, status, sentence, method, path, options) => {
  const answer = await call(platform.url, method, path(), options())
  expect(answer.status).toBe(status)
  expect(answer.json).toMatchObject({ status, error: expect.any(String), code: expect.any(String), request_id: expect.any(String) })
  expect(answer.text).toMatch(sentence)
})

test('an undecodable pack is dead-lettered and affects no other: the next is stored, and the process is healthy', async () => {
  expect((await publish(platform.url, site, '[{"n":"a","v":1,"vs":"two"}]')).status).toBe(202)
  expect((await publish(platform.url, site, [{ n: 'good', v: 1 }])).status).toBe(202)
  expect((await readUntil(platform.url, site, 1)).map(record => record.Name)).toEqual(['good'])
  expect((await call(platform.url, 'GET', '/health')).status).toBe(200)
})
