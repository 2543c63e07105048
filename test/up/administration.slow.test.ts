// Dead letters, verification and traces of a running `sluice up` with the tools on the command line and an administrator's token.

import { expect, test } from 'vitest'
import { sluice } from '../bin/command.ts'
import { call, expectStatus, makeSite, publish, readUntil } from './operator.ts'
import { administrator, startedFolder, startPlatform } from './platform.ts'

test('an administrator lists, shows, replays and drops dead letters, verifies and traces; no other caller can', async () => {
  await using folder = await startedFolder()
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
  await expect.poll(() => said('dlq', 'ls')).toMatch(/format-limit/)

  const listed = await said('dlq', 'ls')
  expect(listed).toMatch(new RegExp(`^${bad} +open +one-value `, 'm'))
  expect(await said('dlq', 'show', bad)).toContain('\n  [{"n":"a","v":1,"vs":"two"}]\n')
  expect(await said('trace', good)).toContain(`read         GET ${platform.url}/channels/${site.channel}/messages\n`)
  expect(await said('trace', bad)).toMatch(/^dead letter {2}open: .*\(rule one-value, record 0\)/m)
  expect(await said('verify', 'relational')).toMatch(/received 4 = stored 2 \+ empty 0 \+ filtered 0 \+ dead-lettered 2; skipped 0\n/)

  expect(await said('verify', 'relational', '--contents')).toMatch(
    /\nok: 4 messages in 1 partition, with every column of their rows, 0 more in/,
  )

  expect(await said('erase', 'relational', '--channel', site.channel)).toMatch(
    /^found: 2 rows and 2 dead letters of channel [^]*the log messages has 4 messages .* \(retention\.ms = 86400000\)[^]*nothing was erased: add --yes/,
  )
  expect(await said('erase', 'relational', '--list')).toBe('nothing was erased\n')

  // With the token of a user, with an unknown one, and without one.
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

  const limited = await sluice(['dlq', 'replay', '--all', '--url', platform.url, '--token', token])
  expect([limited.code, limited.output.toString()]).toEqual([1, '0 dead letters replayed: stored and no longer open\n'])
  expect(limited.errors).toMatch(new RegExp(`^${bad} stays open: one-value: .*\n${refused} stays open: format-limit: `))

  // Without the limit.
  await platform.stop()
  platform = await start()
  token = await tokenOf()
  expect(await said('verify', 'relational')).toContain('of the dead-lettered, 2 are open')
  expect(await said('dlq', 'replay', '--rule', 'format-limit', '--dry-run')).toBe('1 dead letter would be replayed\n')
  expect(await said('dlq', 'replay', '--rule', 'format-limit')).toBe('1 dead letter replayed: stored and no longer open\n')
  expect(await said('trace', refused)).toMatch(/^stored {7}1 row$/m)
  expect(await said('dlq', 'drop', bad)).toBe('1 dead letter dropped\n')
  expect(await said('dlq', 'ls')).toBe('no matching dead letters\n')
  const verified = await said('verify', 'relational')
  expect(verified).toContain('of the dead-lettered, 1 were replayed and are stored')
  expect(verified).toMatch(/ok: 4 messages in 1 partition, 0 more in flight\n$/)
  const { code, errors } = await sluice(['dlq', 'drop', '1-0-999', '--url', platform.url, '--token', token])
  expect([code, errors]).toEqual([1, 'no dead letter has the id 1-0-999\n'])

  expect(await said('erase', 'relational', '--channel', site.channel, '--yes')).toMatch(/^erased: 3 rows and 2 dead letters of channel /)
  expect(await said('erase', 'relational', '--list')).toMatch(new RegExp(`^BEGAN [^]* 3 +2 +channel ${site.channel} `))
  expect(await said('verify', 'relational')).toMatch(/ \+ erased 2;[^]*ok: 4 messages in 1 partition/)
  expect(await said('trace', good)).toContain('stored       no: erased on ')
  const audited = await call(platform.url, 'GET', '/audit?action=messages.erase', { authorization: `Bearer ${token}` })
  expect(JSON.stringify(audited.json)).toContain(site.channel)
  expect(await platform.stop()).toBe(0)
})
