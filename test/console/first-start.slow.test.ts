// The first line for people is the console's address: of the first start on a terminal a link that signs in once. Without a terminal: up/first-message.slow.test.ts.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { call, expectStatus } from '../up/operator.ts'
import { disposableFolder } from '../up/platform.ts'

const root = new URL('../..', import.meta.url).pathname

/** Runs `up` on a terminal of its own until `work` is done, and stops it with Ctrl+C. Resolves with all that it printed. */
async function onTerminal(data: string, work: (url: string, printed: string) => Promise<void>, environment = {}): Promise<string> {
  const command = [process.execPath, `${root}main.ts`, 'up', '--port', '0', '--data', data]
  const script = process.platform === 'darwin' ? ['-q', '/dev/null', ...command] : ['-qefc', command.join(' '), '/dev/null']
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('SVC_') && name !== 'NODE_ENV')
  const child = spawn('script', script, {
    cwd: root,
    env: {
      ...Object.fromEntries(kept),
      SVC_ADMIN_EMAIL: 'chief@sluice.example',
      SVC_MQTT_PORT: '0',
      SVC_LOGGING_LEVEL: 'fatal',
      ...environment,
    },
  })
  let printed = ''
  const exit = once(child, 'close')
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
      const ready = /^ready on (http:\/\/\S+?)\r?$/m.exec(printed)
      if (ready !== null) resolve(ready[1]!)
    })
    child.once('close', () => reject(new Error(`ended before it was ready:\n${printed}`)))
  })
  await work(url, printed)
  child.stdin.write('\u0003')
  await exit
  return printed
}

test('the link of the first start signs the administrator in, once', async () => {
  await using folder = await disposableFolder()
  const redeem = (url: string, code: string) => call(url, 'POST', '/console/sign-in', { body: { code } })
  let code = ''
  await onTerminal(folder.path, async (url, printed) => {
    const [, found] = new RegExp(`^console: ${url}/#/sign-in/([\\w-]{43}) `).exec(printed)!
    code = found!
    const { json, headers } = await expectStatus(redeem(url, code), 201)
    expect(headers.get('cache-control')).toBe('no-store')
    const authorization = `Bearer ${String(json!['token'])}`
    await expectStatus(call(url, 'GET', '/admin/verify', { authorization }), 200)
    const audit = await expectStatus(call(url, 'GET', '/audit?action=user.sign-in-by-code', { authorization }), 200)
    expect(audit.json!['entries']).toEqual([expect.objectContaining({ request_id: headers.get('x-request-id') })])
    await expectStatus(redeem(url, code), 401)
  })
  const printed = await onTerminal(
    folder.path,
    async (url, printed) => {
      expect(printed).toMatch(new RegExp(`^console: ${url}/#/break\\r\\n`))
      await expectStatus(redeem(url, code), 401)
    },
    { SVC_DEMO: 'true' },
  )
  expect(printed).not.toContain('/#/sign-in')
})
