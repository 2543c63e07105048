// `up --demo`: crashes, outages and undecodable messages under load lose and double nothing. Without --demo none of it can be reached.

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Overview } from '../../console/overview.ts'
import { inDepth } from '../depth.ts'
import { type EventClient, openEvents } from '../readers/live/event-source.ts'
import { call, expectStatus } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'

let folder: Awaited<ReturnType<typeof startedFolder>>
let platform: Platform
let authorization: string
let stream: EventClient
beforeAll(async () => {
  folder = await startedFolder()
  platform = await startPlatform({ data: folder.path, arguments: ['--demo'] })
  authorization = await signIn(platform.url)
  stream = await openEvents(`${platform.url}/console/overview/stream`, { authorization })
})
afterAll(async () => {
  expect(await platform.stop()).toBe(0)
  await folder[Symbol.asyncDispose]()
})

async function signIn(url: string): Promise<string> {
  const { json } = await expectStatus(call(url, 'POST', '/tokens', { body: administrator }), 201)
  return `Bearer ${String(json!.token)}`
}

async function press(button: string, body?: object): Promise<Record<string, unknown>> {
  const path = `/console/demo/${button}`
  return (await expectStatus(call(platform.url, 'POST', path, { authorization, ...(body === undefined ? {} : { body }) }), 200)).json!
}

/** The next overview that is like this. */
async function until(isSo: (overview: Overview) => boolean): Promise<Overview> {
  const seen = stream.named.length
  const event = await stream.untilNamed(
    one => one.name === 'overview' && stream.named.indexOf(one) >= seen && isSo(JSON.parse(one.data) as Overview),
  )
  return JSON.parse(event.data) as Overview
}

async function afterAllIsStored(deadLettered: number): Promise<void> {
  const { ledger, dead_letters: letters } = await until(one => one.ledger.waiting === 0 && one.writer === 'running')
  expect(ledger).toMatchObject({ dead_lettered: deadLettered, filtered: 0, empty: 0, lost: 0 })
  expect(ledger.stored).toBe(ledger.received - deadLettered)
  expect(Object.values(letters).reduce((sum, count) => sum + count, 0)).toBe(deadLettered)
  const { json } = await expectStatus(call(platform.url, 'GET', '/admin/verify', { authorization }), 200)
  expect(json).toMatchObject({ holds: true, partitions: [{ ledger: { received: ledger.received }, in_flight: 0 }] })
}

test('a writer that is killed under load, with messages that cannot be decoded', async () => {
  expect(await press('load', { is_running: true })).toMatchObject({ load: { is_running: true, devices: 100 } })
  await until(({ ledger }) => ledger.stored > 100)
  expect(await press('writer-kill')).toMatchObject({ writer: 'stopped' })
  await press('poison')
  await until(({ writer, ledger }) => writer === 'running' && ledger.dead_lettered === 5)
  await press('poison')
  expect(await press('load', { is_running: false })).toMatchObject({ load: { is_running: false } })
  await afterAllIsStored(10)
  expect(platform.printed()).not.toMatch(/"level":"(error|fatal)"/)
})

inDepth(() => {
  test('a store that is cut under load, and a kill meanwhile', async () => {
    await press('load', { is_running: true })
    const cut = await press('store-cut')
    expect(cut).toMatchObject({ store: { is_cut_until: expect.any(Number) as unknown } })
    expect(await press('store-cut')).toMatchObject({ store: cut['store'] })
    await until(({ dependencies }) => dependencies.some(one => one.name === 'store' && one.is_away))
    expect(await press('writer-kill')).toMatchObject({ writer: 'stopped' })
    await until(({ writer, dependencies }) => writer === 'running' && dependencies.every(one => !one.is_away))
    await press('load', { is_running: false })
    await afterAllIsStored(10)
    const { json } = await expectStatus(call(platform.url, 'GET', '/things?name=demo-', { authorization }), 200)
    expect(json).toMatchObject({ total: 100 })
  })
})

test('without --demo there is nothing to press', async () => {
  await using other = await startedFolder()
  const plain = await startPlatform({ data: other.path })
  const token = await signIn(plain.url)
  const home = await call(plain.url, 'GET', '/')
  expect(home.json!['links']).not.toHaveProperty('demo')
  expect((await call(plain.url, 'GET', '/console/demo', { authorization: token })).status).toBe(404)
  for (const button of ['load', 'poison', 'writer-kill', 'store-cut'])
    expect((await call(plain.url, 'POST', `/console/demo/${button}`, { authorization: token, body: {} })).status).toBe(405)
  expect(await plain.stop()).toBe(0)
})
