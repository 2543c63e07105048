// The programs that the console shows send what they say, whatever characters a key has.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingPython } from '../servers/install/chromium.ts'

const { snippet, languagesOf } = (await import(String(new URL('../../console/page/snippets.js', import.meta.url)))) as {
  snippet: (language: string, publication: Publication) => string
  languagesOf: (hasMqtt: boolean) => string[]
}
interface Publication {
  readonly base: string
  readonly mqtt?: string
  readonly channel: string
  readonly thing: string
  readonly key: string
  readonly format: string
}
/** Every character that a key may have and that a language gives a meaning to. */
const key = `'"\\$(exit 1)\`exit 1\`#{x}%d<>&;|*?~!`.replaceAll(' ', '_')
const interpreters = [
  ['curl', 'sh', []],
  ['Python', 'python3', ['-']],
  ['Node', process.execPath, ['--input-type=module', '-']],
] as const

describeUnlessMissing('the snippets of the console', missingPython(), () => {
  const got: string[] = []
  const server = createServer((request, response) => {
    void text(request).then(body => {
      got.push(`${request.method} ${request.url} ${request.headers.authorization} ${request.headers['content-type']} ${body}`)
      response.writeHead(202).end('{"id":"1-0-0"}')
    })
  })
  beforeAll(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening')
  })
  afterAll(() => server.close())

  test.each(interpreters)('%s', async (language, program, flags) => {
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    for (const [format, sent] of [
      ['SenML', 'application/senml+json [{"bn":"sensor:","n":"temperature","u":"Cel","v":21.5}]'],
      ['JSON', 'application/json {"temperature":21.5,"humidity":48}'],
    ] as const) {
      const child = spawn(program, flags, { stdio: ['pipe', 'pipe', 'inherit'] })
      child.stdin.end(snippet(language, { base, channel: 'c', thing: 't', key, format }))
      expect(await text(child.stdout)).toMatch(/202[^]*"id":"1-0-0"/)
      expect(got.splice(0)).toEqual([`POST /channels/c/messages${format === 'JSON' ? '/climate' : ''} Thing ${key} ${sent}`])
    }
  })
})

const mqtt = { base: 'https://[2001:db8::1]:8080/under', mqtt: 'mqtts://0.0.0.0:8883', channel: 'c', thing: 't', key }

test.each([
  ['mosquitto_pub', 'SenML', ['-q', '1', '-t', 'channels/c/messages', '-m', '[{"bn":"sensor:","n":"temperature","u":"Cel","v":21.5}]']],
  ['mosquitto_pub', 'JSON', ['-q', '1', '-t', 'channels/c/messages/climate', '-m', '{"temperature":21.5,"humidity":48}']],
  ['mosquitto_sub', 'JSON', ['-q', '1', '-v', '-t', 'channels/c/messages/#']],
])('%s with %s has the host of the page, and the port that the server says', async (language, format, words) => {
  const child = spawn('sh', { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(`${language}() { printf '%s\\n' "$@"; }\n${snippet(language, { ...mqtt, format })}`)
  const login = ['-h', '2001:db8::1', '-p', '8883', '--tls-use-os-certs', '-u', 't', '-P', key]
  expect((await text(child.stdout)).trimEnd().split('\n')).toEqual([...login, ...words])
})

test('without an address of MQTT its commands are not offered', () => {
  expect(languagesOf(false)).toEqual(['curl', 'Python', 'Node', 'Arduino'])
  expect(languagesOf(true)).toEqual([...languagesOf(false), 'mosquitto_pub', 'mosquitto_sub'])
})
