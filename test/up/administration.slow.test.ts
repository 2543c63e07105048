// Dead letters, verification and traces of a running `sluice up`, by the tools as they are typed, with an administrator's token.

import { expect, test } from 'vitest'
import { sluice } from '../bin/command.ts'
import { call, expectStatus, makeSite, publish, readUntil } from './operator.ts'
import { disposableFolder, startPlatform } from './platform.ts'

const administrator = { email: 'chief@sluice.example', password: 'the chief of them all' }

test('an administrator lists, shows, replays and drops dead letters, verifies and traces; nobody else does', async () => {
  await using folder = await disposableFolder()
  const environment = { SVC_ADMIN_EMAIL: administrator.email, SVC_ADMIN_PASSWORD: administrator.password }
  const start = (more = {}) => startPlatform({ data: folder.path, environment: { ...environment, ...more } })
  let platform = await start({ SVC_STORE_FORMATS_PER_CHANNEL_MAX: '1' })
  const site = await makeSite(platform.url)
  const tokenOf = async (): Promise<string> =>
    String((await expectStatus(call(platform.url, 'POST', '/tokens', { body: administrator }), 201)).json?.['token'])
  let token = await tokenOf()
  const said = async (...words: string[]): Promise<string> => {
    const { code, output, errors } = await sluice([...words, '--url', platform.url, '--token', token])
    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    return output.toString()
  }
  const publishJson = async (format: string): Promise<string> => {
    const path = `/channels/${site.channel}/messages/${format}`
    const answer = await call(platform.url, 'POST', path, { authorization: site.device, body: { speed: 1 } })
    expect(answer.status).toBe(202)
    return String(answer.json?.['id'])
  }

  const good = String((await expectStatus(publish(platform.url, site, [{ n: 'a', v: 1 }]), 202)).json?.['id'])
  const bad = String((await expectStatus(publish(platform.url, site, '[{"n":"a","v":1,"vs":"two"}]'), 202)).json?.['id'])
  await publishJson('first')
  const refused = await publishJson('second')
  await readUntil(platform.url, site, 1)
  await expect.poll(() => said('dlq', 'ls'), { timeout: 30_000 }).toMatch(/format-limit/)

  const listed = await said('dlq', 'ls')
  expect(listed).toMatch(new RegExp(`^${bad} +open +one-value `, 'm'))
  expect(await said('dlq', 'show', bad)).toContain('\n  [{"n":"a","v":1,"vs":"two"}]\n')
  expect(await said('trace', good)).toContain(`read         GET ${platform.url}/channels/${site.channel}/messages\n`)
  expect(await said('trace', bad)).toMatch(/^dead letter {2}open: .*\(rule one-value, record 0\)/m)
  expect(await said('verify', 'relational')).toMatch(/received 4 = stored 2 \+ empty 0 \+ filtered 0 \+ dead-lettered 2; skipped 0\n/)

  // With the token of a user, of nobody, without one.
  for (const [other, says] of [
    [site.owner.slice(7), /not an administrator's/],
    ['nonsense', /administrator.*\(401\)/],
  ] as const) {
    for (const words of [
      ['dlq', 'ls'],
      ['dlq', 'drop', '--all'],
    ]) {
      const { code, errors } = await sluice([...words, '--url', platform.url, '--token', other])
      expect([code, errors]).toEqual([1, expect.stringMatching(says)])
    }
    for (const words of [
      ['verify', 'relational'],
      ['trace', good],
    ]) {
      expect((await sluice([...words, '--url', platform.url, '--token', other])).code).toBe(2)
    }
  }

  await platform.stop()
  platform = await start()
  token = await tokenOf()
  expect(await said('dlq', 'replay', '--rule', 'format-limit')).toMatch(/^1 dead letter replayed/)
  await expect.poll(() => said('trace', refused), { timeout: 30_000 }).toMatch(/^stored {7}1 row$/m)
  expect(await said('dlq', 'drop', bad)).toBe('1 dead letter dropped\n')
  expect(await said('dlq', 'ls')).toBe('there are no such dead letters\n')
  const verified = await said('verify', 'relational')
  expect(verified).toContain('of the dead-lettered, 1 were replayed and are stored')
  expect(verified).toMatch(/it holds: 4 messages in 1 partition, 0 more in flight\n$/)
  const { code, errors } = await sluice(['dlq', 'drop', '1-0-999', '--url', platform.url, '--token', token])
  expect([code, errors]).toEqual([1, 'no dead letter has the id 1-0-999\n'])
  expect(await platform.stop()).toBe(0)
})
