// Ids and keys that older clients choose: devices have keys in their firmware.

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { failuresMax } from '../../../control-plane/access/failed-attempts.ts'
import type { AccessChange } from '../../../control-plane/client.ts'
import { type Answer, call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'

describeOnDatabases('given ids and keys', database => {
  let platform: Platform
  let user: User
  beforeAll(async () => {
    platform = await openPlatform(database(), { compatibility: '0.13' })
    user = await platform.user()
  })
  afterAll(() => platform?.close())
  const ask = (method: string, path: string, body?: object, by = user): Promise<Answer> =>
    call(platform.url, method, path, { authorization: by.token, ...(body === undefined ? {} : { body }) })
  const total = async (by: User): Promise<unknown> => (await ask('GET', '/things', undefined, by)).json?.total
  const burntIn = (): string => `burnt-in:${randomUUID()}`

  test('are used for the thing, and the others are generated', async () => {
    const [id, key] = [randomUUID(), burntIn()]
    const { json } = await ask('POST', '/things/bulk', [{ id, key }, { id: '', key: null }, { name: 'own' }])
    const things = json!.things as { id: string; key: string }[]
    expect(things[0]).toMatchObject({ id, key })
    expect(new Set(things.map(thing => thing.id)).size).toBe(3)
    const site = { channel: randomUUID(), thing: id }
    const heard: AccessChange[] = []
    const stop = platform.plane.access.onChange(change => void heard.push(change))
    expect((await ask('POST', '/channels', { id: site.channel, key: 'x' })).headers.get('location')).toBe(`/channels/${site.channel}`)
    // An administrator may be following what other producers send under this id.
    expect(heard).toEqual([{ kind: 'channel', channel: site.channel }])
    stop()
    expect((await ask('POST', '/connect', { channel_ids: [site.channel], thing_ids: [site.thing] })).status).toBe(200)
    const access = await platform.plane.access.authorize({
      credential: { scheme: 'Thing', secret: key },
      channel: site.channel,
      action: 'publish',
    })
    expect(access).toMatchObject({ allowed: true, publisher: id })
    const next = burntIn()
    expect((await ask('PATCH', `/things/${id}/key`, { key: next })).status).toBe(200)
    expect((await ask('GET', `/things/${id}`)).json).toMatchObject({ id, key: next })
  })

  test('that are invalid create nothing, and the error gives the place', async () => {
    const by = await platform.user()
    const answer = await ask(
      'POST',
      '/things/bulk',
      [{ name: 'right' }, { id: 'one', key: 'short' }, { key: 'with, a comma and blanks' }],
      by,
    )
    expect([answer.status, (answer.json!.errors as { pointer: string }[]).map(({ pointer }) => pointer)]).toEqual([
      400,
      ['/body/1/id', '/body/1/key', '/body/2/key'],
    ])
    expect((await ask('POST', '/things', { key: `sluice_${'x'.repeat(40)}` }, by)).status).toBe(400)
    expect((await ask('POST', '/channels', { id: '../things' }, by)).status).toBe(400)
    expect(await total(by)).toBe(0)
  })

  test('that are in use are a conflict that does not say whose, and nothing of the batch is created', async () => {
    const [id, key, channel] = [randomUUID(), burntIn(), randomUUID()]
    await ask('POST', '/things', { id, key })
    await ask('POST', '/channels', { id: channel })
    const by = await platform.user()
    const taken: [string, object][] = [
      ['/things/bulk', [{ name: 'right' }, { id }]],
      ['/things/bulk', [{ name: 'right' }, { key }]],
      ['/things', { id: user.id }],
      ['/channels/bulk', [{ name: 'right' }, { id: channel }]],
    ]
    for (const [path, body] of taken) {
      const answer = await ask('POST', path, body, by)
      expect([answer.status, answer.text.includes(key)]).toEqual([409, false])
    }
    expect([await total(by), (await ask('GET', '/channels', undefined, by)).json?.total]).toEqual([0, 0])
    expect(platform.logged()).not.toContain(key)
  })

  test('twice in one request are a conflict', async () => {
    const key = burntIn()
    expect((await ask('POST', '/things/bulk', [{ key }, { key }])).status).toBe(409)
  })

  test('are refused while an old key of the same text is valid', async () => {
    const [id, key] = [randomUUID(), burntIn()]
    await ask('POST', '/things', { id, key })
    await ask('PATCH', `/things/${id}/key`, { key: burntIn(), grace_seconds: 60 })
    expect((await ask('POST', '/things', { key }, await platform.user())).status).toBe(409)
  })

  test('do not replace a key with an empty one, or with the same', async () => {
    const [id, key] = [randomUUID(), burntIn()]
    await ask('POST', '/things', { id, key })
    const replace = async (next: string): Promise<number> => (await ask('PATCH', `/things/${id}/key`, { key: next })).status
    expect([await replace(''), await replace(key)]).toEqual([400, 409])
    expect((await ask('GET', `/things/${id}`)).json).toMatchObject({ key })
  })

  test('are free when the grace period of an old key is over', async () => {
    const [first, second, key] = [randomUUID(), randomUUID(), burntIn()]
    await ask('POST', '/things', { id: first, key })
    await ask('PATCH', `/things/${first}/key`, { key: burntIn(), grace_seconds: 60 })
    await platform.database.query("UPDATE control_plane.things SET previous_key_ends_at = now() - interval '1 second' WHERE id = $1", [
      first,
    ])
    expect((await ask('POST', '/things', { id: second, key })).status).toBe(201)
    expect((await ask('PATCH', `/things/${second}/key`, { grace_seconds: 60 })).status).toBe(200)
  })

  test("are not the id of another user's channel that was deleted, whose messages may still be there", async () => {
    const id = randomUUID()
    const create = async (by: User): Promise<number> => (await ask('POST', '/channels', { id }, by)).status
    await create(user)
    expect((await ask('DELETE', `/channels/${id}`)).status).toBe(204)
    const deleted = (): Promise<string[]> => platform.plane.access.deletedChannels([id])
    expect(await deleted()).toEqual([id])
    expect([await create(await platform.user()), await create(user)]).toEqual([409, 201])
    expect(await deleted()).toEqual([])
  })

  test('cannot be guessed: after too many conflicts a user may give none, and requests without them still succeed', async () => {
    const [key, guesser] = [burntIn(), await platform.user()]
    await ask('POST', '/things', { key })
    const statuses = []
    for (let attempt = 0; attempt <= failuresMax; attempt++) statuses.push((await ask('POST', '/things', { key }, guesser)).status)
    expect(statuses).toEqual([...Array.from({ length: failuresMax }, () => 409), 429])
    expect((await ask('POST', '/things', {}, guesser)).status).toBe(201)
    expect((await ask('POST', '/things', { key: burntIn() })).status).toBe(201)
  })
})
