// Follows messages of a running platform: immediately, across interruptions and kills, and only as long as permitted.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inDepth } from '../depth.ts'
import { type EventClient, openEvents } from '../readers/live/event-source.ts'
import { call, expectStatus, makeSite, publish, readUntil, type Site } from './operator.ts'
import { type Platform, startedFolder, startPlatform } from './platform.ts'

function follow(base: string, { channel, owner }: Site, lastEventId?: string, authorization = owner): Promise<EventClient> {
  const headers = { authorization, accept: 'text/event-stream', ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }) }
  return openEvents(`${base}/channels/${channel}/messages/stream`, headers)
}

async function publishAll(base: string, site: Site, values: readonly number[]): Promise<void> {
  for (const v of values) await expectStatus(publish(base, site, [{ n: 'count', v }]), 202)
}

const valuesOf = ({ records }: EventClient): number[] => records.map(({ data }) => (JSON.parse(data) as { Value: number }).Value)
const reasonOf = ({ named }: EventClient): string => (JSON.parse(named.at(-1)!.data) as { reason: string }).reason
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at)

describe('of a platform that runs', () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let platform: Platform
  beforeAll(async () => {
    folder = await startedFolder()
    platform = await startPlatform({ data: folder.path })
  })
  afterAll(async () => {
    expect(await platform.stop()).toBe(0)
    await folder[Symbol.asyncDispose]()
  })

  test('a published record arrives immediately, in the same bytes as on a page, and an interruption loses nothing', async () => {
    const site = await makeSite(platform.url)
    const other = await makeSite(platform.url)
    const [own, device] = await Promise.all([follow(platform.url, site), follow(platform.url, site, undefined, site.device)])
    await publishAll(platform.url, other, [7])
    await publishAll(platform.url, site, [0])
    await own.until(1)
    await device.until(1)
    await readUntil(platform.url, site, 1)
    const page = await call(platform.url, 'GET', `/channels/${site.channel}/messages`, { authorization: site.owner })
    expect(page.text).toContain(`"messages":[${own.records[0]!.data}]`)

    await publishAll(platform.url, site, numbers(1, 30))
    await own.until(30)
    own.leave()
    await publishAll(platform.url, site, numbers(30, 40))
    const again = await follow(platform.url, site, own.records[19]!.lastEventId)
    await again.until(20)
    await publishAll(platform.url, site, [40])
    await again.until(21)
    expect([...valuesOf(own).slice(0, 20), ...valuesOf(again)]).toEqual(numbers(0, 41))

    // JSON documents, by their format.
    const weather = await openEvents(`${platform.url}/channels/${site.channel}/messages/stream?format=weather&payload.d.tmp=21.5`, {
      authorization: site.owner,
    })
    const path = `/channels/${site.channel}/messages/weather`
    const send = (body: string) =>
      expectStatus(call(platform.url, 'POST', path, { authorization: site.device, type: 'application/json', body }), 202)
    await send('{"d":{"tmp":3}}')
    await send('{"z":8659456789564231564,"d":{"tmp":21.5}}')
    await weather.until(1)
    expect(weather.records[0]!.data).toContain('"Payload":{"d":{"tmp":21.5},"z":8659456789564231564}}')
  })

  test('a disconnect ends the streams of that thing on that channel, and no others', async () => {
    const site = await makeSite(platform.url)
    const [owners, devices] = await Promise.all([follow(platform.url, site), follow(platform.url, site, undefined, site.device)])
    await publishAll(platform.url, site, [0])
    await devices.until(1)
    const path = `/channels/${site.channel}/things/${site.thing}`
    await expectStatus(call(platform.url, 'DELETE', path, { authorization: site.owner }), 204)
    expect(await devices.closed).toBeUndefined()
    expect(reasonOf(devices)).toBe('access_ended')
    await expect(follow(platform.url, site, devices.lastEventId(), site.device)).rejects.toThrow(/^403 /)
    const things = { channel_ids: [site.channel], thing_ids: [site.thing] }
    await expectStatus(call(platform.url, 'POST', '/connect', { authorization: site.owner, body: things }), 200)
    await publishAll(platform.url, site, [1])
    await owners.until(2)
    const again = await follow(platform.url, site, devices.lastEventId(), site.device)
    await again.until(1)
    expect([valuesOf(owners), valuesOf(again)]).toEqual([[0, 1], [1]])
  })

  test('an API key of the channel publishes as itself; revoking it ends its streams, and none of others', async () => {
    const site = await makeSite(platform.url)
    const body = { channels: [site.channel] }
    const { json } = await expectStatus(call(platform.url, 'POST', '/keys', { authorization: site.owner, body }), 201)
    const authorization = `Bearer ${String(json!['value'])}`
    const [owners, keys] = [await follow(platform.url, site), await follow(platform.url, site, undefined, authorization)]
    await publishAll(platform.url, { ...site, device: authorization }, [0])
    await keys.until(1)
    expect(JSON.parse(keys.records[0]!.data)).toMatchObject({ Publisher: json!['id'], Value: 0 })
    await expectStatus(call(platform.url, 'DELETE', `/keys/${String(json!['id'])}`, { authorization: site.owner }), 204)
    expect(await keys.closed).toBeUndefined()
    expect(reasonOf(keys)).toBe('access_ended')
    await publishAll(platform.url, site, [1])
    await owners.until(2)
    await expect(follow(platform.url, site, keys.lastEventId(), authorization)).rejects.toThrow(/^401 /)
  })

  test.each([
    ['deleting a channel', 'DELETE', 'channel', ['owner', 'device']],
    ['deleting a thing', 'DELETE', 'thing', ['device']],
    ['replacing a key', 'PATCH', 'key', ['device']],
  ] as const)('%s ends its streams, and its credential is refused', async (_what, method, of, ended) => {
    const site = await makeSite(platform.url)
    const clients = { owner: await follow(platform.url, site), device: await follow(platform.url, site, undefined, site.device) }
    await publishAll(platform.url, site, [1])
    await clients.owner.until(1)
    await clients.device.until(1)
    const path = { channel: `/channels/${site.channel}`, thing: `/things/${site.thing}`, key: `/things/${site.thing}/key` }[of]
    const body = method === 'PATCH' ? { body: {} } : {}
    const { status } = await call(platform.url, method, path, { authorization: site.owner, ...body })
    expect([200, 204]).toContain(status)
    for (const who of ended) {
      await clients[who].closed
      expect(reasonOf(clients[who])).toBe('access_ended')
    }
    expect([401, 403]).toContain((await publish(platform.url, site, [{ n: 'count', v: 2 }])).status)
    if (of === 'channel') {
      const read = await call(platform.url, 'GET', `/channels/${site.channel}/messages`, { authorization: site.owner })
      expect(read.status).toBe(403)
    } else {
      // The owner's stream continues.
      const { json } = await call(platform.url, 'POST', '/things/bulk', { authorization: site.owner, body: [{ name: 'next' }] })
      const [next] = json!.things as [{ id: string; key: string }]
      await call(platform.url, 'POST', '/connect', {
        authorization: site.owner,
        body: { channel_ids: [site.channel], thing_ids: [next.id] },
      })
      await publishAll(platform.url, { ...site, device: `Thing ${next.key}` }, [3])
      await clients.owner.until(2)
    }
  })
})

test('after SIGKILL of the platform a client resumes after its last record', async () => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  const received: number[] = []
  let lastEventId: string | undefined
  let published = 0
  for (let kill = 0; kill < 3; kill++) {
    const client = await follow(platform.url, site, lastEventId)
    await publishAll(platform.url, site, numbers(published, published + 20))
    published += 20
    await client.until(10)
    await platform.stop('SIGKILL')
    expect(await client.closed).toBeInstanceOf(Error)
    received.push(...valuesOf(client))
    lastEventId = client.records.at(-1)!.lastEventId
    platform = await startPlatform({ data: folder.path })
  }
  const last = await follow(platform.url, site, lastEventId)
  await publishAll(platform.url, site, [published])
  await last.until(published + 1 - received.length)
  expect([...received, ...valuesOf(last)]).toEqual(numbers(0, published + 1))
  expect(await platform.stop()).toBe(0)
})

inDepth(() => {
  test('SIGTERM ends open streams with a reason before the process stops', async () => {
    await using folder = await startedFolder()
    const platform = await startPlatform({ data: folder.path })
    const site = await makeSite(platform.url)
    const clients = await Promise.all(numbers(0, 20).map(() => follow(platform.url, site)))
    expect(await platform.stop()).toBe(0)
    expect(await Promise.all(clients.map(client => client.closed))).toEqual(clients.map(() => undefined))
    expect(new Set(clients.map(reasonOf))).toEqual(new Set(['stopping']))
  })
})

inDepth(() => {
  test('the number of streams is an option; open ones and refusals are counted', async () => {
    await using folder = await startedFolder()
    const platform = await startPlatform({ data: folder.path, environment: { SVC_LIVE_STREAMS_MAX: '1' } })
    const site = await makeSite(platform.url)
    await follow(platform.url, site)
    await expect(follow(platform.url, site)).rejects.toThrow(/^429 .*end some of them/)
    await expect(follow(platform.url, await makeSite(platform.url))).rejects.toThrow(/^503 .*retry/)
    const { text } = await call(platform.url, 'GET', '/metrics')
    expect(text).toMatch(/^open_connections\{component_id="reader",component_kind="source"\} 1$/m)
    expect(text).toMatch(/^http_server_handler_duration_seconds_count\{.*stream",status="503",answer="stream"\} 1$/m)
    expect(await platform.stop()).toBe(0)
  })
})
