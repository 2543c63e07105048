// Each view of the console in a real browser, on one platform. Longer than most files: the views share the browser and what is stored.

import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingChromium } from '../servers/install/chromium.ts'
import { call, expectStatus, makeSite, publish, readUntil } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'
import { openBrowser, type Visitor, visit } from './visitor.ts'

const user = { email: 'gardener@sluice.example', password: 'correct horse battery' }
/** What runs the snippets that the console shows. */
const interpreters = { curl: ['sh'], Python: ['python3', '-'], Node: [process.execPath, '--input-type=module', '-'] } as const

describeUnlessMissing('the console', missingChromium(), () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let platform: Platform
  let browser: Browser
  beforeAll(async () => {
    folder = await startedFolder()
    ;[platform, browser] = await Promise.all([startPlatform({ data: folder.path, arguments: ['--demo'] }), openBrowser()])
    await expectStatus(call(platform.url, 'POST', '/users', { body: user }), 201)
  })
  afterAll(async () => {
    await browser?.close()
    expect(await platform?.stop()).toBe(0)
    await folder[Symbol.asyncDispose]()
  })

  async function visitAs(who: typeof user, view = ''): Promise<Visitor> {
    const visitor = await visit(browser, `${platform.url}/${view}`)
    await visitor.signIn(who)
    return visitor
  }

  test('signs in with a password, keeps the token in memory unless asked, and says why a link or a password is refused', async () => {
    await using visitor = await visit(browser, `${platform.url}/#/sign-in/expired`)
    const { page } = visitor
    await page.getByRole('alert').getByText('401 unauthenticated').waitFor()
    expect(page.url()).toBe(`${platform.url}/`)
    await page.getByLabel('Email').fill(user.email)
    await page.getByLabel('Password').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').getByText('401 unauthenticated').waitFor()

    await visitor.signIn(user)
    expect(await page.evaluate('JSON.stringify([...Object.values(sessionStorage), ...Object.values(localStorage), document.cookie])')).toBe(
      '[""]',
    )
    await page.reload()
    await visitor.signIn(user, { keep: true })
    await page.reload()
    await visitor.inAccount()
    await page.getByText(user.email).waitFor()
    expect(page.url()).toBe(`${platform.url}/`)
    await visitor.go('#/sign-in/expired')
    await page.getByRole('alert').getByText('401 unauthenticated').waitFor()
    await page.getByRole('link', { name: 'Stay signed in as you are' }).click()
    await visitor.inAccount('Sign out')
    await page.getByText('You signed out.').waitFor()
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
  })

  test('changes a password, stays signed in after a wrong one, and deletes the API keys if asked to', async () => {
    const keeper = { email: 'keeper@sluice.example', password: 'correct horse battery' }
    await expectStatus(call(platform.url, 'POST', '/users', { body: keeper }), 201)
    const token = (await expectStatus(call(platform.url, 'POST', '/tokens', { body: keeper }), 201)).json!['token']
    const issued = await expectStatus(call(platform.url, 'POST', '/keys', { authorization: `Bearer ${String(token)}`, body: {} }), 201)
    const authorization = `Bearer ${String(issued.json!['value'])}`
    const statusOfKey = async (): Promise<number> => (await call(platform.url, 'GET', '/users/profile', { authorization })).status
    await using visitor = await visitAs(keeper)
    const { page } = visitor
    const dialog = page.getByRole('dialog')
    const change = async (old: string, next: string): Promise<void> => {
      await dialog.getByLabel('Old password').fill(old)
      await dialog.getByLabel('New password').fill(next)
      await dialog.getByRole('button', { name: 'Change the password' }).click()
    }

    await visitor.inAccount('Change password')
    await dialog.getByText('API keys stay valid').waitFor()
    await change('wrong horse battery', 'another horse battery')
    await dialog.getByText('401 unauthenticated').waitFor()
    await change(keeper.password, 'another horse battery')
    await page.getByText('Your password is changed').waitFor()
    expect(await statusOfKey()).toBe(200)

    await visitor.signIn({ ...keeper, password: 'another horse battery' })
    await visitor.inAccount('Change password')
    await dialog.getByLabel('Also delete all my API keys').check()
    await change('another horse battery', 'a third horse battery')
    await page.getByText('Your password is changed').waitFor()
    expect(await statusOfKey()).toBe(401)
    await visitor.signIn({ ...keeper, password: 'a third horse battery' })
  })

  test('shows what API keys may do, on which channels and until when, and revokes them', async () => {
    const keeper = { email: 'holder@sluice.example', password: 'correct horse battery' }
    await expectStatus(call(platform.url, 'POST', '/users', { body: keeper }), 201)
    const token = (await expectStatus(call(platform.url, 'POST', '/tokens', { body: keeper }), 201)).json!['token']
    const ask = async (path: string, body: object) =>
      (await expectStatus(call(platform.url, 'POST', path, { authorization: `Bearer ${String(token)}`, body }), 201)).json!
    const [channel] = (await ask('/channels/bulk', [{ name: 'greenhouse' }]))['channels'] as [{ id: string }]
    await ask('/keys', { name: 'export' })
    await ask('/keys', { name: 'dashboard', access: 'read', channels: [channel.id], expires_at: '2031-05-06T12:00:00Z' })
    await using visitor = await visitAs(keeper)
    const { page } = visitor
    await visitor.inAccount('API keys')
    const table = page.getByRole('dialog').getByRole('table')
    const rowOf = (name: string) => table.getByRole('row').filter({ hasText: name })
    await rowOf('dashboard').getByText('greenhouse').waitFor()
    expect(await rowOf('dashboard').innerText()).toMatch(/read\s+greenhouse\s+6 May 2031/)
    expect(await rowOf('export').innerText()).toMatch(/all that you may\s+all\s+revoked/)
    await rowOf('export').getByRole('button', { name: 'Revoke' }).click()
    await rowOf('export').waitFor({ state: 'detached' })
    await rowOf('dashboard').getByRole('link', { name: 'greenhouse' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: 'greenhouse' }).waitFor()
  })

  test('shows an administrator what comes in as it happens, and everyone else what is theirs', async () => {
    const site = await makeSite(platform.url)
    await expectStatus(publish(platform.url, site, [{ n: 'attic:temperature', u: 'Cel', v: 21 }], 'attic'), 202)
    await using chief = await visitAs(administrator)
    const received = chief.page.locator('dl .figure').first()
    await received.waitFor()
    const before = Number((await received.innerText()).replaceAll(',', ''))
    await expectStatus(publish(platform.url, site, [{ n: 'attic:temperature', u: 'Cel', v: 21.5 }], 'attic'), 202)
    await chief.page.getByText('[{"n":"attic:temperature","u":"Cel","v":21.5}]').waitFor()
    await expect.poll(async () => Number((await received.innerText()).replaceAll(',', ''))).toBeGreaterThan(before)
    await chief.page.getByText('adds up').waitFor()
    await chief.page.getByText('writer: ● running').waitFor()
    await chief.page.getByText('MQTT: 0 open connections').waitFor()

    await using gardener = await visitAs(user)
    await gardener.page.getByText('A thing is a device').waitFor()
    const offered = await gardener.page.getByRole('navigation').innerText()
    for (const view of ['Overview', 'Dead letters', 'Break something']) expect(offered).not.toContain(view)
  })

  test('creates things and channels, connects what is selected, shows a key, shares, disconnects and deletes', async () => {
    await using visitor = await visitAs(user, '#/channels')
    const { page } = visitor
    const dialog = page.getByRole('dialog')
    const button = (name: string | RegExp) => page.getByRole('button', { name })
    await button('Create channels').click()
    await dialog.getByLabel('Names').fill('greenhouse\nshed')
    await dialog.getByRole('button', { name: 'Create 2 channels' }).click()
    await page.getByText('2 channels selected').waitFor()
    await page.getByRole('link', { name: 'greenhouse' }).waitFor()

    await visitor.go('#/things')
    await button('Create things').click()
    await dialog.getByLabel('Names').fill('pump')
    await dialog.getByLabel('How many').fill('25')
    await dialog.getByRole('button', { name: 'Create 25 things' }).click()
    await page.getByText('25 things selected').waitFor()
    await button('Copy ids, names and keys').click()
    await page.getByText('Copied').waitFor()
    expect(String(await page.evaluate('navigator.clipboard.readText()')).split('\n')).toEqual(
      Array.from({ length: 25 }, (_, at) => expect.stringMatching(new RegExp(`^[\\w-]{36}\tpump-${at + 1}\t.+`)) as unknown),
    )
    await page.getByText('25 things', { exact: true }).waitFor()
    await page.getByLabel('Search by name').press('ArrowDown')
    await page.keyboard.press('End')
    await page.getByRole('link', { name: 'pump-25' }).waitFor()
    await page.getByLabel('Search by name').fill('UMP-2')
    await page.getByRole('link', { name: 'pump-1', exact: true }).waitFor({ state: 'detached' })

    await button('Connect to channels').click()
    await dialog.getByLabel('Select greenhouse').check()
    await dialog.getByRole('button', { name: 'Connect to 1 channel' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'pump-24' }).click()
    await page.getByRole('link', { name: 'greenhouse' }).waitFor()
    const key = page.locator('main code').nth(1)
    await button('Show the key').click()
    await button('Copy the key').click()
    await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toBe(await key.innerText())

    const { json } = await call(platform.url, 'POST', '/tokens', { body: administrator })
    const profile = await call(platform.url, 'GET', '/users/profile', { authorization: `Bearer ${String(json?.['token'])}` })
    await page.getByLabel("The user's id").fill(String(profile.json?.['id']))
    await button('Share').click()
    await page.getByText('Shared.', { exact: true }).waitFor()
    await button('Stop sharing').click()
    await page.getByText('No longer shared.').waitFor()
    const shown = await key.innerText()
    await page.getByLabel('Also replace the key').check()
    await button('Stop sharing').click()
    await page.getByText('the device needs its new key').waitFor()
    await expect.poll(() => key.innerText()).not.toBe(shown)

    await page.getByLabel('Select greenhouse').check()
    await button('Disconnect 1 channel').click()
    await page.getByText('It may publish nowhere yet').waitFor()
    await button('Delete').click()
    await dialog.getByText('Its key is refused everywhere at once').waitFor()
    await dialog.getByRole('button', { name: 'Delete 1 thing' }).click()
    await page.getByText('24 things', { exact: true }).waitFor()
  })

  test('checks connectivity: what it shows to run publishes, and the line says what became of it', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(administrator)])
    await using _ = visitor
    const { page } = visitor
    await visitor.go(`#/things/${site.thing}`)
    await page.getByText('Waiting for the first message of this thing…').waitFor()

    for (const format of ['SenML', 'JSON']) {
      await page.getByLabel('Format').selectOption(format)
      for (const [language, command] of Object.entries(interpreters)) {
        await page.getByLabel('Language').selectOption(language)
        const [, id] = /\b202\b[^]*"id":"([^"]+)"/.exec(await outputOf(command, await page.locator('pre.snippet').innerText())) ?? []
        await lineWith(page, 'good', `Stored: ${id}`)
      }
    }
    await page.getByLabel('Language').selectOption('Arduino')
    expect(await page.locator('pre.snippet').innerText()).toContain(`"Thing ${site.key}"`)
    await page.getByLabel('Language').selectOption('mosquitto_pub')
    const [, port] = /^mqtt on mqtt:\S+:(\d+)$/m.exec(platform.printed())!
    expect(await page.locator('pre.snippet').innerText()).toContain(`-h '127.0.0.1' -p ${port} -u '${site.thing}' -P '${site.key}'`)

    await publish(platform.url, site, '[{"n":"a","v":1,"vs":"two"}]')
    await lineWith(page, 'bad', 'Dead letter, rule one-value')
    await publish(platform.url, { ...site, channel: site.elsewhere }, '[{"n":"a","v":1}]')
    await lineWith(page, 'bad', 'Refused: ')
  })

  test('follows series of a channel, pauses, shows what is stored further back, and saves what is seen as CSV without the token in an address', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator, '#/live'), makeSiteOf(administrator)])
    await using _ = visitor
    const { page } = visitor
    const addresses: string[] = []
    page.on('request', request => addresses.push(request.url()))
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
    const now = Date.now() / 1000
    const past = Array.from({ length: 30 }, (_, at) => ({ n: 'level', u: 'm', v: at, t: now - 1800 + at }))
    await expectStatus(publish(platform.url, site, past, 'tank'), 202)
    await readUntil(platform.url, site, past.length)

    await page.getByLabel('Search by name').fill('site')
    await page.locator(`a[href="#/live/${site.channel}"]`).click()
    await page.getByText('following').waitFor()
    await page.getByText('No record is in this range: the newest one is of').waitFor()
    await press('Show it')
    await page.getByRole('img', { name: 'Chart of level.' }).waitFor()
    await press('Continue')
    await expectStatus(
      publish(platform.url, site, [
        { n: 'speed', u: 'm/s', v: 7.25 },
        { n: 'valve', vb: true },
        { n: 'state', vs: 'open' },
      ]),
      202,
    )
    const row = (name: string) => page.getByRole('row', { name })
    for (const [name, value] of [
      ['speed', '7.25'],
      ['valve', 'true'],
      ['state', 'open'],
    ] as const)
      await row(name).getByText(value, { exact: true }).waitFor()
    const chart = (name: string) => page.getByRole('img', { name: `Chart of ${name}.` })
    await chart('speed').locator('canvas').waitFor()
    await expect.poll(() => page.locator('.charts').getAttribute('data-points')).toBe('3')
    // A boolean and a text are states, over the same time.
    for (const label of ['States of valve: now true', 'States of state: now open'])
      await page.getByRole('img', { name: label }).locator('rect').waitFor({ state: 'attached' })

    await press('Pause')
    await page.getByText('paused').waitFor()
    const shownUntil = () => page.locator('time').nth(1).getAttribute('datetime')
    const pausedAt = await shownUntil()
    await expectStatus(publish(platform.url, site, [{ n: 'speed', u: 'm/s', v: 8.5 }]), 202)
    await row('speed').getByText('8.5', { exact: true }).waitFor()
    expect(await shownUntil()).toBe(pausedAt)
    await press('Continue')
    await expect.poll(() => page.locator('.charts').getAttribute('data-points')).toBe('4')

    await page.getByLabel('Length of the range').selectOption('1 hour')
    await chart('level').waitFor()
    await row('level').getByText('29', { exact: true }).waitFor()
    const before = await page.locator('time').first().getAttribute('datetime')
    const area = chart('level').locator('.u-over')
    await area.scrollIntoViewIfNeeded()
    const { x, y, width } = (await area.boundingBox())!
    await page.mouse.move(x + width * 0.4, y + 20)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.6, y + 30, { steps: 3 })
    await page.mouse.up()
    await page.getByText('paused').waitFor()
    expect(Date.parse((await page.locator('time').first().getAttribute('datetime'))!) - Date.parse(before!)).toBeGreaterThan(1_000_000)
    // The legend has the value at the cursor, and the address the same view.
    await page.mouse.move(x + width * 0.8, y + 20)
    await expect.poll(() => page.locator('.legend output').first().innerText()).toMatch(/^\d+$/)
    const shown = await page.locator('time').evaluateAll('times => times.slice(0, 2).map(time => time.dateTime)')
    await using other = await visitAs(administrator, new URL(page.url()).hash)
    await other.page.getByText('paused').waitFor()
    expect(await other.page.locator('time').evaluateAll('times => times.slice(0, 2).map(time => time.dateTime)')).toEqual(shown)
    await other.page.getByRole('img', { name: 'Chart of level.' }).waitFor()
    const [download] = await Promise.all([page.waitForEvent('download'), press('Save as CSV')])
    const lines = (await readFile(await download.path(), 'utf8')).trimEnd().split('\r\n')
    expect(lines).toHaveLength(1 + past.length)
    expect(lines[1]).toContain(`,tank,${site.thing},http,level,m,`)
    expect(addresses.filter(address => address.includes(site.owner.slice('Bearer '.length)))).toEqual([])
  })

  test('shows the smallest and the largest value of buckets once too much is stored', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(administrator)])
    await using _ = visitor
    const now = Date.now() / 1000
    for (let pack = 0; pack < 11; pack++) {
      const records = Array.from({ length: 1000 }, (_, at) => ({ n: 'level', u: 'm', v: at, t: now - 3000 + pack * 100 + at / 10 }))
      await expectStatus(publish(platform.url, site, records), 202)
    }
    await readUntil(platform.url, site, 11_000)
    await visitor.go(`#/live/${site.channel}`)
    await visitor.page.getByLabel('Length of the range').selectOption('1 hour')
    await visitor.page.getByText('Stored: smallest and largest of each 18 seconds').waitFor()
    await visitor.page.getByRole('img', { name: 'Chart of level.' }).waitFor()
  })

  test('asks the whole query of a reader, shows errors at their fields, and the command that asks the same', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(administrator)])
    await using _ = visitor
    const { page } = visitor
    const read = () => page.getByRole('button', { name: 'Read', exact: true }).click()
    const curl = () => page.locator('pre.curl').innerText()
    await expectStatus(
      publish(
        platform.url,
        site,
        [1, 2, 3].map(v => ({ n: `level-${v}`, u: 'm', v })),
        'tank',
      ),
      202,
    )
    const document = { authorization: site.device, type: 'application/json', body: '{"engine":{"speed":1200}}' }
    await expectStatus(call(platform.url, 'POST', `/channels/${site.channel}/messages/yard/engine`, document), 202)
    await expect
      .poll(async () => (await call(platform.url, 'GET', `/channels/${site.channel}/formats`, { authorization: site.owner })).text)
      .toContain('"engine"')
    await visitor.go(`#/explorer/${site.channel}`)
    await page.locator('#found-format option', { hasText: 'engine' }).waitFor({ state: 'attached' })
    expect(await page.locator('#found-subtopic option').allTextContents()).toEqual(['tank'])

    const field = (name: string) => page.locator(`[name=${name}]`)
    const problemOf = (name: string) => page.locator('.field', { has: field(name) }).getByRole('alert')
    await page.getByText('Values, fields of documents').click()
    await field('limit').fill('2')
    await field('interval').fill('often')
    await field('comparator').selectOption('ge')
    await read()
    await problemOf('interval').getByText('is not allowed').waitFor()
    expect(await page.evaluate('document.activeElement.value')).toBe('often')
    await field('interval').fill('')
    await read()
    await problemOf('comparator').getByText('needs v').waitFor()
    await field('v').fill('0')
    await read()
    await page.getByText('2 records of 3').waitFor()
    expect(await curl()).toBe(
      `curl -H "Authorization: Bearer $TOKEN" '${platform.url}/channels/${site.channel}/messages?limit=2&v=0&comparator=ge'`,
    )
    await page.getByRole('button', { name: 'Next page' }).click()
    await page.getByRole('cell', { name: 'level-1' }).waitFor()
    const same = await outputOf(['sh'], `TOKEN='${site.owner.slice('Bearer '.length)}'\n${await curl()}`)
    expect(same).toContain('"Name":"level-1"')
    await field('subtopic').fill('""')
    await read()
    await page.getByText('No record matches.').waitFor()

    await page.getByRole('button', { name: 'Clear' }).click()
    await field('format').fill('engine')
    await field('payload').fill('engine.speed=1200')
    await read()
    await page.getByRole('cell', { name: '{"engine":{"speed":1200}}' }).waitFor()
    await field('payload').fill('engine..speed=1200')
    await read()
    await problemOf('payload').waitFor()
  })

  test('shows dead letters by rule, in text and hex, what a replay would do, and drops them', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(administrator)])
    await using _ = visitor
    const { page } = visitor
    const dialog = page.getByRole('dialog')
    const answer = await expectStatus(publish(platform.url, site, '[{"n":"no unit","v":1}]'), 202)
    const id = String(answer.json?.['id'])
    await visitor.go('#/dead-letters/rule/name-characters')
    await expect
      .poll(async () => {
        await page.getByRole('button', { name: 'Look again' }).click()
        return page.getByRole('link', { name: id }).count()
      })
      .toBe(1)
    await page.getByRole('link', { name: id }).click()
    await page.getByText('[{"n":"no unit","v":1}]').waitFor()
    await page.getByText('5b 7b 22 6e 22 3a 22 6e 6f 20').waitFor()
    const asked = page.waitForRequest('**/admin/dead-letters/replay')
    await page.getByRole('button', { name: 'Replay' }).click()
    expect((await asked).postDataJSON()).toEqual({ ids: [id], dry_run: true })
    await dialog.getByText('0 would be stored, 1 would stay open').waitFor()
    expect(await dialog.getByRole('button', { name: 'Replay' }).isDisabled()).toBe(true)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Drop' }).click()
    await dialog.getByText('The messages are not stored').waitFor()
    await dialog.getByRole('button', { name: 'Drop 1' }).click()
    await page.getByText('● dropped').waitFor()
  })

  test('breaks the writer and the store under load, and what was received adds up', async () => {
    await using visitor = await visitAs(administrator, '#/break')
    const { page } = visitor
    const press = (name: string): Promise<void> => page.getByRole('button', { name }).click()
    await press('Start a load')
    await page.getByText('The load started.').waitFor()
    await press('Kill the writer')
    await page.getByText('The writer was killed, and starts again.').waitFor()
    await press('Publish poison')
    await page.getByText('Messages were published that cannot be decoded.').waitFor()
    await press('Cut the store')
    await page.getByText('store: ▲ away').waitFor()
    await page.getByText('Waiting until all works again…').waitFor()
    // Without another press: the figures of both moments, and the comparison of all messages.
    await page.getByText('All works again after').waitFor()
    const [before, after, more] = (
      await page
        .getByRole('row', { name: /^received/ })
        .getByRole('cell')
        .allInnerTexts()
    ).slice(1)
    expect(numberOf(after!) - numberOf(before!)).toBe(numberOf(more!))
    expect(numberOf(more!)).toBeGreaterThan(0)
    await page.getByText('Each message is stored exactly once, or a dead letter').waitFor()
    await page.getByRole('img', { name: /^store: away for [1-9]/ }).waitFor()
    await page.getByRole('img', { name: /^writer: away for [1-9]/ }).waitFor()
    await press('Stop the load')
    await page.locator('dl div', { hasText: 'waiting' }).getByText('0', { exact: true }).waitFor()
    await page.getByText('adds up').waitFor()
    await press('Run verify')
    await page.getByText('Each message is stored exactly once, or a dead letter').waitFor()
  })

  /** A thing of this user, connected to one channel, and one that it is not connected to. */
  async function makeSiteOf(who: typeof user) {
    const { json } = await expectStatus(call(platform.url, 'POST', '/tokens', { body: who }), 201)
    const owner = `Bearer ${String(json?.['token'])}`
    const make = async (kind: 'things' | 'channels', names: string[]) => {
      const body = names.map(name => ({ name }))
      return (await expectStatus(call(platform.url, 'POST', `/${kind}/bulk`, { authorization: owner, body }), 201)).json![kind] as [
        Made,
        Made,
      ]
    }
    const [[thing], [channel, elsewhere]] = await Promise.all([make('things', ['probe']), make('channels', ['site', 'elsewhere'])])
    const body = { channel_ids: [channel.id], thing_ids: [thing.id] }
    await expectStatus(call(platform.url, 'POST', '/connect', { authorization: owner, body }), 200)
    return { owner, channel: channel.id, elsewhere: elsewhere.id, thing: thing.id, key: thing.key, device: `Thing ${thing.key}` }
  }
})

const numberOf = (text: string): number => Number(text.replaceAll(/[,+]/g, ''))

interface Made {
  readonly id: string
  readonly key: string
}

async function lineWith(page: Page, state: string, words: string): Promise<void> {
  await page.locator(`.arrivals li:first-child .state.${state}`, { hasText: words }).waitFor()
}

async function outputOf([program, ...flags]: readonly [string, ...string[]], source: string): Promise<string> {
  const child = spawn(program, flags, { stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.end(source)
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  return output + errors
}
