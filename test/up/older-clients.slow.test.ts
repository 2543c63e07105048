// Requests of the command line and devices for the origin's release 0.13, one by one, with the status that each client requires. Without
// `compatibility` the same requests show which are refused.

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { type Answer, call } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

const senml = 'application/senml+json'
const page = 'offset=0&limit=100'

/** The status of each command; answers are checked if a client reads them. */
async function runCommands(url: string): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {}
  let authorization = ''
  async function run(
    command: string,
    method: string,
    path: string,
    body?: unknown,
    options: { by?: string; type?: string } = {},
  ): Promise<Answer> {
    const { by = authorization, type = 'application/json' } = options
    // The SDK sends a content type with every request, even without a body.
    const text = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const headers = { 'content-type': type }
    const answer = await call(url, method, path, { ...(by === '' ? {} : { authorization: by }), type, headers, ...text })
    statuses[command] = answer.status
    return answer
  }
  const made = ({ headers }: Answer, prefix: string): string => {
    const location = headers.get('location') ?? ''
    expect(location.startsWith(prefix)).toBe(true)
    return location.slice(prefix.length)
  }

  const health = await run('health', 'GET', '/health')
  for (const name of ['status', 'version', 'commit', 'description', 'build_time']) expect(typeof health.json?.[name]).toBe('string')

  const credentials = { email: 'words_name@email.com', password: '12345678' }
  const user = made(await run('users create', 'POST', '/users', credentials), '/users/')
  const { json: signedIn } = await run('users token', 'POST', '/tokens', credentials)
  authorization = `Bearer ${String(signedIn?.token)}`
  expect((await run('users get', 'GET', '/users')).json).toMatchObject({ id: user, email: credentials.email })
  await run('users update', 'PUT', '/users', { metadata: { a: 1 } })

  const thing = made(await run('things create', 'POST', '/things', { name: 'One', id: '', key: '', groups: [] }), '/things/')
  const bulk = await run('provision things', 'POST', '/things/bulk', [{ name: 'two' }, { name: 'three' }])
  expect((bulk.json!.things as { name: string }[]).map(({ name }) => name)).toEqual(['two', 'three'])
  expect((await run('things get all', 'GET', `/things?${page}&name=`)).json).toMatchObject({
    total: 3,
    order: expect.any(String),
    direction: expect.any(String),
  })
  expect((await run('things get all, by name', 'GET', `/things?${page}&name=ONE`)).json?.total).toBe(1)
  const { json: shown } = await run('things get', 'GET', `/things/${thing}`)
  const key = String(shown?.key)
  await run('things update', 'PUT', `/things/${thing}`, { id: thing, name: 'one', key, metadata: { b: 2 } })
  const channel = made(await run('channels create', 'POST', '/channels', { name: 'site' }), '/channels/')
  await run('provision channels', 'POST', '/channels/bulk', [{ name: 'a' }, { name: 'b' }])
  await run('channels get all', 'GET', `/channels?${page}&name=`)
  await run('channels get', 'GET', `/channels/${channel}`)
  await run('channels updatev', 'PUT', `/channels/${channel}`, { id: channel, name: 'place' })
  await run('things connect', 'POST', '/connect', { channel_ids: [channel], thing_ids: [thing] })
  await run('provision connect', 'POST', '/connect', { channel_ids: [channel, channel], thing_ids: [thing, thing] })
  const connections = await run('things connections', 'GET', `/things/${thing}/channels?${page}&disconnected=true`)
  expect(connections.json?.total).toBe(2)
  const others = await run('things not-connected', 'GET', `/things/${thing}/channels?${page}&disconnected=false`)
  expect(others.json?.total).toBe(1)
  await run('channels connections', 'GET', `/channels/${channel}/things?${page}&disconnected=false`)

  const group = made(await run('groups create', 'POST', '/groups', { name: 'team', description: 'all' }), '/groups/')
  await run('groups get all', 'GET', `/groups?${page}&tree=false`)
  await run('groups get', 'GET', `/groups/${group}`)
  await run('groups get children', 'GET', `/groups/${group}/children?${page}&tree=false&level=5`)
  await run('groups get parents', 'GET', `/groups/${group}/parents?${page}&tree=false&level=5`)
  await run('groups assign', 'POST', `/groups/${group}/members`, { type: 'things', members: [thing] })
  await run('groups members', 'GET', `/groups/${group}/members?${page}&`)
  await run('groups membership', 'GET', `/members/${thing}/groups?${page}&`)
  await run('groups unassign', 'DELETE', `/groups/${group}/members`, { members: [thing] })
  await run('groups delete', 'DELETE', `/groups/${group}`)

  const issued = await run('keys issue', 'POST', '/keys', { type: 2, duration: 3_600_000_000_000 })
  const { id: keyId } = issued.json as { id: string }
  expect((await run('keys retrieve', 'GET', `/keys/${keyId}`)).json).toMatchObject({ id: keyId, issuer_id: user, type: 2 })
  await run('keys revoke', 'DELETE', `/keys/${keyId}`)

  const messages = `/channels/${channel}/messages`
  const pack = '[{"n":"state","vs":"on"}]'
  await run('messages send', 'POST', `/http${messages}/a/b`, pack, { by: `Thing ${key}`, type: senml })
  await run('a device with a key', 'POST', messages, pack, { by: `Thing ${key}`, type: senml })
  const pair = Buffer.from(`any:${key}`).toString('base64')
  await run('a device with a password', 'POST', messages, pack, { by: `Basic ${pair}`, type: senml })
  await run('a device without a scheme', 'POST', messages, pack, { by: key, type: senml })
  const read = (): Promise<Answer> => run('messages read, by a key', 'GET', `${messages}?subtopic=a/b`, undefined, { by: `Bearer ${key}` })
  if (statuses['messages send'] === 202) {
    const record = { Subtopic: 'a.b', StringValue: 'on', string_value: 'on' }
    await expect.poll(async () => (await read()).json?.messages).toMatchObject([record])
  } else await read()
  await run('messages read, by a token', 'GET', messages)
  await run('a script without a scheme', 'GET', '/things', undefined, { by: authorization.replace('Bearer ', '') })

  // `-b` of the command line is the address without `/things`.
  const external = { external_id: 'gateway-1', external_key: 'gateway-key' }
  const created = { ...external, thing_id: thing, channels: [channel], name: 'gateway', content: '{"agent":{}}' }
  await run('bootstrap create', 'POST', '/configs', created)
  const config = await run('bootstrap get', 'GET', `/configs/${thing}`)
  if (config.status === 200) expect(config.json).toMatchObject({ mainflux_id: thing, mainflux_key: key, channels: [channel], state: 0 })
  await run('bootstrap update', 'PUT', `/configs/${thing}`, { mainflux_id: thing, name: 'other', content: '{"agent":{}}' })
  await run('blacklist', 'PUT', `/state/${thing}`, {})
  await run('whitelist', 'PUT', `/state/${thing}`, { state: 1 })
  await run('bootstrap certs', 'PATCH', `/configs/certs/${thing}`, { client_cert: 'c', client_key: 'k', ca_cert: 'a' })
  const fetched = await run('bootstrap bootstrap', 'GET', '/bootstrap/gateway-1', undefined, { by: 'Bearer gateway-key' })
  if (fetched.status === 200)
    expect(fetched.json).toMatchObject({ mainflux_id: thing, mainflux_channels: [{ id: channel }], client_key: 'k' })
  await run('an agent without a scheme', 'GET', '/things/bootstrap/gateway-1', undefined, { by: 'gateway-key' })
  await run('bootstrap remove', 'DELETE', `/configs/${thing}`)
  await run('provision a device', 'POST', '/mapping', { external_id: 'gateway-2', external_key: '12345678', name: 'gateway' })
  await run('an agent', 'GET', '/things/bootstrap/gateway-2', undefined, { by: 'Thing 12345678' })

  const bare = { by: authorization.replace('Bearer ', '') }
  const wanted = { thing_id: thing, key_bits: 2048, key_type: 'rsa', encryption: '', valid: '8760' }
  await run('certs issue', 'POST', '/certs', wanted, bare)
  // `RemoveCert` of the SDK, whose `-e` is the address without `/certs`. Some clients write ids in capitals.
  const serials = async (): Promise<unknown[]> =>
    ((await call(url, 'GET', `/serials/${thing}`, { authorization })).json!['certs'] as Record<string, unknown>[]).map(
      ({ revocation_time: time }) => typeof time,
    )
  const removed = await run('certs remove', 'DELETE', `/${thing.toUpperCase()}`, undefined, bare)
  if (removed.status === 204) expect([removed.text, await serials()]).toEqual(['', ['string']])
  await run('certs remove, of no thing of theirs', 'DELETE', `/${randomUUID()}`, undefined, bare)

  const given = { id: randomUUID(), key: `burnt-in-${randomUUID()}` }
  await run('a device with a burnt-in key is made', 'POST', '/things', given)
  await run('and found by its id', 'GET', `/things/${given.id}`)

  await run('things disconnect', 'DELETE', `/channels/${channel}/things/${thing}`)
  await run('channels delete', 'DELETE', `/channels/${channel}`)
  await run('things delete', 'DELETE', `/things/${thing}`)
  await run('users password', 'PATCH', '/password', { old_password: '12345678', password: '87654321' })
  return statuses
}

const always = {
  health: 200,
  'users create': 201,
  'users token': 201,
  'users get': 200,
  'users update': 200,
  'things create': 201,
  'provision things': 201,
  'things get all': 200,
  'things get all, by name': 200,
  'things get': 200,
  'things update': 200,
  'channels create': 201,
  'provision channels': 201,
  'channels get all': 200,
  'channels get': 200,
  'channels updatev': 200,
  'things connect': 200,
  'provision connect': 200,
  'things connections': 200,
  'things not-connected': 200,
  'channels connections': 200,
  'groups create': 201,
  'groups get all': 200,
  'groups get': 200,
  'groups get children': 200,
  'groups get parents': 200,
  'groups assign': 200,
  'groups members': 200,
  'groups membership': 200,
  'groups unassign': 204,
  'groups delete': 204,
  'keys issue': 201,
  'keys retrieve': 200,
  'keys revoke': 204,
  'a device with a key': 202,
  'messages read, by a token': 200,
  'a device with a burnt-in key is made': 201,
  'provision a device': 201,
  'an agent': 200,
  'things disconnect': 204,
  'channels delete': 204,
  'things delete': 204,
  'users password': 201,
}

test.each([
  [
    '0.13',
    {
      'messages send': 202,
      'a device with a password': 202,
      'a device without a scheme': 202,
      'messages read, by a key': 200,
      'a script without a scheme': 200,
      'and found by its id': 200,
      'bootstrap create': 201,
      'bootstrap get': 200,
      'bootstrap update': 200,
      whitelist: 200,
      blacklist: 200,
      'bootstrap certs': 200,
      'bootstrap bootstrap': 200,
      'an agent without a scheme': 200,
      'bootstrap remove': 204,
      'certs issue': 200,
      'certs remove': 204,
      'certs remove, of no thing of theirs': 403,
    },
  ],
  [
    'none',
    {
      'messages send': 404,
      'a device with a password': 401,
      'a device without a scheme': 401,
      'messages read, by a key': 401,
      'a script without a scheme': 401,
      // Created with another id, and the given one reveals nothing about its owner.
      'and found by its id': 403,
      'bootstrap create': 404,
      'bootstrap get': 404,
      'bootstrap update': 404,
      whitelist: 404,
      blacklist: 404,
      'bootstrap certs': 404,
      'bootstrap bootstrap': 404,
      'an agent without a scheme': 401,
      'bootstrap remove': 404,
      'certs issue': 401,
      'certs remove': 404,
      'certs remove, of no thing of theirs': 404,
    },
  ],
])('with compatibility %s', async (compatibility, differing) => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path, environment: { SVC_COMPATIBILITY: compatibility } })
  try {
    expect(await runCommands(platform.url)).toEqual({ ...always, ...differing })
    expect(platform.printed().includes('compatibility is 0.13')).toBe(compatibility === '0.13')
  } finally {
    await platform.stop()
  }
})
