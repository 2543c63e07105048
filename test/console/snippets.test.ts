// The programs that the console shows send what they say, whatever characters a key has.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingPython } from '../servers/install/chromium.ts'

const { snippet } = (await import(String(new URL('../../console/page/snippets.js', import.meta.url)))) as {
  snippet: (language: string, publication: { base: string; channel: string; key: string; format: string }) => string
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
      child.stdin.end(snippet(language, { base, channel: 'c', key, format }))
      expect(await text(child.stdout)).toMatch(/202[^]*"id":"1-0-0"/)
      expect(got.splice(0)).toEqual([`POST /channels/c/messages${format === 'JSON' ? '/climate' : ''} Thing ${key} ${sent}`])
    }
  })
})
