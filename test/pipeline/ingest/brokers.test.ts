// What other brokers are answered: a key admits its thing, a topic is that of a channel the thing is connected to, and whatever goes wrong is a denial.

import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from '../../../config/logger.ts'
import { AccessUnavailableError } from '../../../control-plane/client.ts'
import { createServer } from '../../../http/server.ts'
import { brokerRoutes } from '../../../pipeline/ingest/brokers/routes.ts'
import { channel, key, limitedKey, looseKey, looseThing, openKeys, thing } from './site.ts'

async function openSite(brokers: readonly string[] = ['127.0.0.1'], trustedProxies: readonly string[] = []) {
  const keys = openKeys()
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }), trustedProxies: [...trustedProxies] })
  const said: string[] = []
  const note = (_fields: object, sentence: string): void => void said.push(sentence)
  await app.register(brokerRoutes({ access: keys, brokers, logger: { debug: () => undefined, warn: note, error: note } as never }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/brokers`

  async function post(
    path: string,
    body: string | URLSearchParams,
    type = 'application/json',
    more: Readonly<Record<string, string>> = {},
  ): Promise<[number, unknown]> {
    const headers = { ...more, ...(typeof body === 'string' ? { 'content-type': type } : {}) }
    const answer = await fetch(`${url}/${path}`, { method: 'POST', body, headers })
    const { result, ok, code } = (await answer.json()) as { result?: string; ok?: boolean; code?: string }
    return [answer.status, result ?? ok ?? code]
  }

  /** In both modes of parameters. */
  async function mosquitto(path: 'user' | 'superuser' | 'acl', body: Readonly<Record<string, string | number>>) {
    const form = new URLSearchParams(Object.entries(body).map(([name, value]): [string, string] => [name, String(value)]))
    const answers = [await post(`mosquitto/${path}`, JSON.stringify(body)), await post(`mosquitto/${path}`, form)]
    expect(answers[1]).toEqual(answers[0])
    return answers[0]
  }

  return {
    keys,
    said,
    post,
    emqx: (path: 'authenticate' | 'authorize', body: object) => post(`emqx/${path}`, JSON.stringify(body)),
    mosquitto,
  }
}

const allow = [200, 'allow']
const deny = [200, 'deny']
const accept = [200, true]
const refuse = [403, 'forbidden']

test.each([
  ['the key of the thing', thing, key, true],
  ['its id in capitals', thing.toUpperCase(), key, true],
  ['the key of a thing that is connected to nothing', looseThing, looseKey, true],
  ['the key of another thing', thing, looseKey, false],
  ['an unknown key', thing, 'unknown', false],
  ['a key that was tried too often', thing, limitedKey, false],
  ['no key', thing, '', false],
  ['no user name', '', key, false],
])('a device with %s', async (_what, username, password, isAdmitted) => {
  const { emqx, mosquitto } = await openSite()
  expect(await emqx('authenticate', { username, password, clientid: 'device-1' })).toEqual(isAdmitted ? allow : deny)
  expect(await mosquitto('user', { username, password, clientid: 'device-1' })).toEqual(isAdmitted ? accept : refuse)
})

test('none may use all topics', async () => {
  expect(await (await openSite()).mosquitto('superuser', { username: thing })).toEqual(refuse)
})

const messages = `channels/${channel}/messages`
test.each([
  [messages, true, true],
  [`/${messages}/a/b`, true, true],
  [`${messages}/a.b`, true, true],
  [`${messages}/#`, false, true],
  [`${messages}/+/b`, false, true],
  [`$share/workers/${messages}/#`, false, true],
  ['$share/workers/channels/#', false, false],
  ['channels/+/messages', false, false],
  ['channels/#', false, false],
  ['#', false, false],
  ['$SYS/#', false, false],
  [`channels/${channel}`, false, false],
  [`channels/${looseThing}/messages`, false, false],
  [`${messages}/${'x/'.repeat(20)}y`, false, false],
  ['', false, false],
])('of the topic "%s" publishing is %s, subscribing %s', async (topic, mayPublish, maySubscribe) => {
  const { emqx, mosquitto } = await openSite()
  const use = { username: thing.toUpperCase(), topic, clientid: 'device-1' }
  expect(await emqx('authorize', { ...use, action: 'publish' })).toEqual(mayPublish ? allow : deny)
  expect(await emqx('authorize', { ...use, action: 'subscribe' })).toEqual(maySubscribe ? allow : deny)
  for (const acc of [1, 2, 3]) expect(await mosquitto('acl', { ...use, acc }), String(acc)).toEqual(mayPublish ? accept : refuse)
  for (const acc of [4, 8]) expect(await mosquitto('acl', { ...use, acc }), String(acc)).toEqual(maySubscribe ? accept : refuse)
  for (const acc of [0, 5, 'read']) expect(await mosquitto('acl', { ...use, acc }), String(acc)).toEqual(refuse)
  expect(await emqx('authorize', { ...use, username: looseThing, action: 'subscribe' })).toEqual(deny)
  expect(await mosquitto('acl', { ...use, username: '', acc: 2 })).toEqual(refuse)
})

test('after the thing was disconnected from the channel it is refused', async () => {
  const { keys, emqx } = await openSite()
  keys.isConnected = false
  expect(await emqx('authorize', { username: thing, topic: messages, action: 'publish' })).toEqual(deny)
})

test.each([[[]], [['192.0.2.0/24']]])('with the brokers %j any other is refused, and named in the log once', async brokers => {
  const { keys, said, emqx, mosquitto } = await openSite(brokers)
  for (let time = 0; time < 2; time++) {
    expect(await emqx('authenticate', { username: thing, password: key })).toEqual(deny)
    expect(await mosquitto('acl', { username: thing, topic: messages, acc: 2 })).toEqual(refuse)
  }
  expect(said).toEqual([expect.stringMatching(/^127\.0\.0\.1 asks as an MQTT broker, but is not in mqtt\.brokers/)])
  expect(keys.requests).toEqual([])
})

const outside = '203.0.113.7'
test.each<[proxies: string[], headers: Readonly<Record<string, string>>, isAnswered: boolean]>([
  [[], { 'x-forwarded-for': outside }, false],
  [[], { forwarded: `for=${outside}` }, false],
  [['127.0.0.1'], { 'x-forwarded-for': outside }, false],
  [['127.0.0.1'], { forwarded: 'for=unknown' }, false],
  // What the client wrote contradicts what the proxy did.
  [['127.0.0.1'], { 'x-forwarded-for': outside, forwarded: 'for=unknown' }, false],
  [['127.0.0.1'], { 'x-forwarded-for': '10.0.0.7' }, true],
  [['127.0.0.1'], {}, true],
])(
  'a listed network has the proxy too: with the trusted proxies %j and the headers %j it is answered: %s',
  async (proxies, headers, isAnswered) => {
    const { said, post } = await openSite(['127.0.0.0/8', '10.0.0.0/8'], proxies)
    const use = JSON.stringify({ username: thing, topic: messages, action: 'publish' })
    expect(await post('emqx/authorize', use, 'application/json', headers)).toEqual(isAnswered ? allow : deny)
    expect(said).toHaveLength(isAnswered ? 0 : 1)
  },
)

test('an unknown key is counted for the address of the device, where the broker says it', async () => {
  const { keys, emqx } = await openSite()
  for (const peerhost of ['192.0.2.7', '::ffff:192.0.2.8', 'undefined', ''])
    await emqx('authenticate', { username: thing, password: 'x', peerhost })
  expect(keys.requests.map(({ address }) => address)).toEqual(['192.0.2.7', '192.0.2.8', '127.0.0.1', '127.0.0.1'])
})

// EMQX takes any other status for "ask the next one", and may admit everyone then.
test('EMQX is answered with a denial whatever goes wrong, and Mosquitto with an error', async () => {
  const { keys, said, post, emqx, mosquitto } = await openSite()
  for (const body of ['', '{', '[]', '{"username":1}', JSON.stringify({ username: thing, password: 'x'.repeat(20_000) })]) {
    expect(await post('emqx/authenticate', body), body.slice(0, 20)).toEqual(deny)
    expect((await post('mosquitto/user', body))[0], body.slice(0, 20)).toBeGreaterThanOrEqual(400)
  }
  expect(await post('emqx/authorize', 'a', 'text/plain')).toEqual(deny)
  keys.fail = new AccessUnavailableError('away')
  expect(await emqx('authenticate', { username: thing, password: key })).toEqual(deny)
  expect(await mosquitto('user', { username: thing, password: key })).toEqual([503, 'unavailable'])
  expect(said).toEqual([])
  keys.fail = new Error('a defect')
  expect(await emqx('authorize', { username: thing, topic: messages, action: 'publish' })).toEqual(deny)
  expect(said).toEqual(['a request of EMQX failed'])
})
