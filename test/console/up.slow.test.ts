// The console's routes of a running platform: the overview adds up, arrivals say what happened, and only those who may see them.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Overview } from '../../console/overview.ts'
import { type EventClient, openEvents } from '../readers/live/event-source.ts'
import { call, expectStatus, makeSite, publish, type Site } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'

// What is published below `away` is filtered.
const environment = { SVC_SUBSCRIBER_SUBJECTS: 'channels.*,channels.*.near' }
let folder: Awaited<ReturnType<typeof startedFolder>>
let platform: Platform
let url: string
let chief: string
beforeAll(async () => {
  folder = await startedFolder()
  platform = await startPlatform({ data: folder.path, environment })
  url = platform.url
  chief = await signIn(administrator)
})
afterAll(async () => {
  expect(await platform.stop()).toBe(0)
  await folder[Symbol.asyncDispose]()
})

async function signIn(credentials: { email: string; password: string }): Promise<string> {
  const { json } = await expectStatus(call(url, 'POST', '/tokens', { body: credentials }), 201)
  return `Bearer ${String(json!.token)}`
}

const watch = (authorization = chief): Promise<EventClient> => openEvents(`${url}/console/overview/stream`, { authorization })
const follow = (thing: string, authorization: string): Promise<EventClient> =>
  openEvents(`${url}/console/things/${thing}/arrivals/stream`, { authorization })
const overviewsOf = ({ named }: EventClient): Overview[] => named.filter(({ name }) => name === 'overview').map(event => overviewOf(event))
const dataOf = ({ data }: { data: string }): Record<string, unknown> => JSON.parse(data) as Record<string, unknown>
const overviewOf = ({ data }: { data: string }): Overview => JSON.parse(data) as Overview
const newestOf = ({ data }: { data: string }) => (JSON.parse(data) as { outcome: string; message?: string }[])[0]

async function endOf(stream: EventClient): Promise<unknown> {
  return dataOf(await stream.untilNamed(({ name }) => name === 'end'))['reason']
}

async function publishSome(site: Site): Promise<number> {
  const bodies: [object | string, string?][] = [
    ...Array.from({ length: 30 }, (_, v): [object] => [[{ n: 't', u: 'Cel', v }]]),
    [[{ n: 'long', vs: 'x'.repeat(1000) }, ...Array.from({ length: 6 }, (_, v) => ({ n: `n${v}`, v, t: v }))], 'near'],
    [[{ n: 'both', v: 1, vs: 'two' }]],
    [[{ n: 'both', v: 1, vs: 'two' }]],
    ['no JSON'],
    [[{ n: 't', v: 1 }], 'away'],
  ]
  for (const [body, subtopic] of bodies) await expectStatus(publish(url, site, body, subtopic), 202)
  return bodies.length
}

describe('the overview', () => {
  test('every message is in the ledger once, whatever became of it, and the sum is always what was accepted', async () => {
    const site = await makeSite(url)
    const stream = await watch()
    await stream.untilNamed(({ name }) => name === 'overview')
    const [first] = overviewsOf(stream)
    const accepted = await publishSome(site)
    const wanted = first!.ledger.received + accepted
    const last = overviewOf(await stream.untilNamed(event => event.name === 'overview' && isSettled(overviewOf(event), wanted)))
    expect(last).toEqual({
      at: expect.any(Number) as unknown,
      ledger: { received: 35, stored: 31, dead_lettered: 3, filtered: 1, empty: 0, lost: 0, waiting: 0 },
      dead_letters: { 'one-value': 2, 'json-syntax': 1 },
      lag: { messages: 0, seconds: 0 },
      dependencies: ['log', 'store', 'dead_letters'].map(name => ({ name, is_away: false })),
      writer: 'running',
      mqtt_connections: 0,
      newest: expect.any(Array) as unknown,
    })
    for (const { ledger } of overviewsOf(stream)) {
      const { received, ...others } = ledger
      expect(Object.values(others).reduce((sum, count) => sum + count)).toBe(received)
    }
    expect(last.newest).toHaveLength(20)
    const [filtered, broken, , , long, plain] = last.newest
    const common = { channel: site.channel, publisher: site.thing, time: expect.any(Number) as unknown }
    expect(plain).toEqual({ ...common, id: '1-0-29', subtopic: '', payload: '[{"n":"t","u":"Cel","v":29}]' })
    expect(long).toMatchObject({ subtopic: 'near', payload: expect.stringMatching(/^\[\{"n":"long","vs":"x{180}/) as unknown })
    expect(broken).toMatchObject({ subtopic: '', payload: 'no JSON' })
    expect(filtered).toMatchObject({ subtopic: 'away' })

    // A resolved letter is no longer counted.
    const seen = stream.named.length
    await expectStatus(call(url, 'POST', '/admin/dead-letters/drop', { authorization: chief, body: { rule: 'json-syntax' } }), 200)
    const dropped = await stream.untilNamed(
      event => stream.named.indexOf(event) >= seen && !('json-syntax' in overviewOf(event).dead_letters),
    )
    expect(overviewOf(dropped).dead_letters).toEqual({ 'one-value': 2 })
    expect((await call(url, 'GET', '/admin/verify', { authorization: chief })).json).toMatchObject({ holds: true })
    stream.leave()
  })

  test('ends when its reader is no longer an administrator, or changes the password', async () => {
    const credentials = { email: 'second@sluice.example', password: 'the second of them all' }
    const { headers } = await expectStatus(call(url, 'POST', '/users', { body: credentials }), 201)
    const user = headers.get('location')!.replace('/users/', '')
    const policy = { subjects: [user], policies: ['member'], object: 'authorities' }
    await expectStatus(call(url, 'POST', '/policies', { authorization: chief, body: policy }), 201)
    const token = await signIn(credentials)
    const stream = await watch(token)
    await stream.untilNamed(({ name }) => name === 'overview')
    await expectStatus(call(url, 'PUT', '/policies', { authorization: chief, body: policy }), 204)
    expect(await endOf(stream)).toBe('access_ended')
    await expectStatus(call(url, 'GET', '/console/overview/stream', { authorization: token }), 403)

    await expectStatus(call(url, 'POST', '/policies', { authorization: chief, body: policy }), 201)
    const other = await watch(token)
    const body = { old_password: credentials.password, password: 'another one of them' }
    await expectStatus(call(url, 'PATCH', '/password', { authorization: token, body }), 201)
    expect(await endOf(other)).toBe('access_ended')
    await expectStatus(call(url, 'GET', '/console/overview/stream', { authorization: token }), 401)
  })
})

const isSettled = ({ ledger: { received, waiting } }: Overview, wanted: number): boolean => received === wanted && waiting === 0

describe('arrivals', () => {
  test('say what happened to each publish of the thing: stored, refused, dead-lettered, filtered', async () => {
    const site = await makeSite(url)
    const other = await makeSite(url)
    const stream = await follow(site.thing, site.owner)
    const settled = (outcome: string) => stream.untilNamed(event => newestOf(event)?.outcome === outcome)
    const path = `/channels/${site.channel}/messages`
    const { json } = await expectStatus(publish(url, site, [{ n: 't', v: 1 }]), 202)
    await settled('stored')
    const bad = await expectStatus(publish(url, site, [{ n: 't', v: 1, vs: 'two' }]), 202)
    await settled('dead-lettered')
    const away = await expectStatus(publish(url, site, [{ n: 't', v: 1 }], 'away'), 202)
    await settled('filtered')
    const send = (to: string, options: object) => call(url, 'POST', to, { authorization: site.device, ...options })
    const type = 'application/senml+json'
    await expectStatus(send(`/channels/${other.channel}/messages`, { type, body: [{ n: 't', v: 1 }] }), 403)
    await expectStatus(send(path, { type, body: '' }), 400)
    await expectStatus(send(path, { type: 'text/plain', body: 'x' }), 415)
    await expectStatus(send(path, { type, body: 'x'.repeat(300_000) }), 413)
    await expectStatus(publish(url, other, [{ n: 't', v: 1 }]), 202)
    const last = await stream.untilNamed(event => newestOf(event)?.message?.includes('split it') === true)
    const text = expect.any(String) as unknown
    expect(JSON.parse(last.data)).toMatchObject([
      { outcome: 'refused', message: expect.stringContaining('split it') as unknown },
      { outcome: 'refused', message: expect.stringContaining('send the Content-Type') as unknown },
      { outcome: 'refused', message: 'the body is empty: send a SenML pack or a JSON document' },
      { outcome: 'refused', message: 'failed to perform authorization over the entity' },
      { outcome: 'filtered', id: away.json!.id },
      { outcome: 'dead-lettered', id: bad.json!.id, rule: 'one-value', message: text, hint: text },
      { outcome: 'stored', id: json!.id },
    ])
    stream.leave()
  })

  test('of a foreign thing are refused like those of an unknown one, and end with the thing', async () => {
    const site = await makeSite(url)
    const other = await makeSite(url)
    const unknown = '6f9d0a7e-0000-4000-8000-3c5e8b1a2d4f'
    const [foreign, absent] = await Promise.all(
      [site.thing, unknown].map(thing => call(url, 'GET', `/console/things/${thing}/arrivals/stream`, { authorization: other.owner })),
    )
    const withoutId = ({ json }: { json: object | undefined }) => ({ ...json, request_id: '' })
    expect(foreign!.status).toBe(403)
    expect(withoutId(foreign!)).toEqual(withoutId(absent!))
    await expectStatus(call(url, 'GET', `/console/things/${unknown}/arrivals/stream`, { authorization: chief }), 404)

    const stream = await follow(site.thing.toUpperCase(), site.owner)
    await expectStatus(publish(url, site, [{ n: 't', v: 1 }]), 202)
    await stream.untilNamed(event => newestOf(event)?.outcome === 'stored')
    await expectStatus(call(url, 'DELETE', `/things/${site.thing}`, { authorization: site.owner }), 204)
    expect(await endOf(stream)).toBe('access_ended')
  })
})

test('the home page names the streams', async () => {
  expect((await call(url, 'GET', '/')).json!.links).toMatchObject({
    overview: '/console/overview/stream',
    arrivals: '/console/things/{thing}/arrivals/stream',
  })
})

test('a stop ends the streams with a reason', async () => {
  const site = await makeSite(url)
  const streams = [await watch(), await follow(site.thing, site.owner)]
  const ends = Promise.all(streams.map(endOf))
  expect(await platform.stop()).toBe(0)
  expect(await ends).toEqual(['stopping', 'stopping'])
})
