// Lists of thousands of things, the page of one thing, the search that finds any of them, and a board of their series, in a real browser.

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingChromium } from '../servers/install/chromium.ts'
import { call, expectStatus, makeSiteOf, publish, readUntil, type Site } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'
import { openBrowser, type Visitor, visit } from './visitor.ts'

const user = { email: 'fleet@sluice.example', password: 'correct horse battery' }
/** A browser that took it for HTML would open a dialog, which fails the test. */
const hostile = `"'><img src=x onerror=alert(1)>\u202e${'x'.repeat(1000)}`
const thingsMany = 10_000
/** Of a window of 720 pixels, and some above and below. */
const rowsMax = 40
const dragSteps = 20
/** Moves through the whole list, a frame at each step. */
const drag = `new Promise(resolve => {
  const element = document.querySelector('.list')
  const step = place => {
    element.scrollTop = (element.scrollHeight * place) / ${dragSteps}
    if (place < ${dragSteps}) requestAnimationFrame(() => step(place + 1))
    else resolve()
  }
  step(1)
})`

describeUnlessMissing('the console', missingChromium(), () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let platform: Platform
  let browser: Browser
  beforeAll(async () => {
    folder = await startedFolder()
    ;[platform, browser] = await Promise.all([startPlatform({ data: folder.path }), openBrowser()])
    const { json } = await expectStatus(call(platform.url, 'POST', '/tokens', { body: administrator }), 201)
    const authorization = `Bearer ${String(json!['token'])}`
    await expectStatus(call(platform.url, 'POST', '/users', { authorization, body: user }), 201)
  })
  afterAll(async () => {
    await browser?.close()
    expect(await platform?.stop()).toBe(0)
    await folder[Symbol.asyncDispose]()
  })

  async function visitAs(who: typeof user): Promise<Visitor> {
    const visitor = await visit(browser, platform.url)
    await visitor.signIn(who)
    return visitor
  }

  const ask = async (site: Site, method: string, path: string, body?: object) => {
    const answer = await call(platform.url, method, path, { authorization: site.owner, ...(body && { body }) })
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300)
    return answer.json ?? {}
  }

  test('says of things and channels when they sent last, how much in an hour, what they are connected to, and their dead letters', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(platform.url, administrator)])
    await using _ = visitor
    const { page } = visitor
    await expectStatus(
      publish(platform.url, site, [
        { n: 'level', v: 1 },
        { n: 'level', v: 2 },
        { n: 'state', vs: 'open' },
      ]),
      202,
    )
    await readUntil(platform.url, site, 3)
    const document = { authorization: site.device, body: { speed: 7 } }
    const [quiet] = (await ask(site, 'POST', '/things/bulk', [{ name: 'quiet' }]))['things'] as [{ id: string }]
    const broken = String((await expectStatus(publish(platform.url, site, '[{"n":"a b","v":1}]'), 202)).json!['id'])
    await expect
      .poll(async () => (await call(platform.url, 'GET', `/admin/dead-letters/${broken}`, { authorization: site.owner })).status)
      .toBe(200)
    for (const [view, id] of [
      ['things', site.thing],
      ['channels', site.channel],
    ] as const) {
      await visitor.go(`#/${view}`)
      const row = page.getByRole('row').filter({ has: page.locator(`a[href="#/${view}/${id}"]`) })
      await row.getByRole('img', { name: '2 numbers in the last hour' }).waitFor()
      expect(await row.innerText()).toMatch(/\d+ (sec|min)\.? ago\s+2\s+1\s+1$/)
    }
    await visitor.go('#/things')
    const row = page.getByRole('row').filter({ has: page.locator(`a[href="#/things/${quiet.id}"]`) })
    await expect.poll(() => row.innerText()).toMatch(/quiet\s+0\s*$/)

    // A thing that sends only documents has a last message, too.
    const other = await makeSiteOf(platform.url, administrator)
    await expectStatus(
      call(platform.url, 'POST', `/channels/${other.channel}/messages/engine`, { ...document, authorization: other.device }),
      202,
    )
    await expect
      .poll(async () => (await call(platform.url, 'GET', `/channels/${other.channel}/formats`, { authorization: other.owner })).text)
      .toContain('"engine"')
    await visitor.go('#/channels')
    await visitor.go('#/things')
    const documents = page.getByRole('row').filter({ has: page.locator(`a[href="#/things/${other.thing}"]`) })
    await documents.getByText('ago').waitFor()
  })

  test(`makes rows of ${thingsMany} things as they come in sight, also by keyboard, and asks only about those`, async () => {
    const [visitor, site] = await Promise.all([visitAs(user), makeSiteOf(platform.url, user)])
    await using _ = visitor
    const { page } = visitor
    for (let made = 0; made < thingsMany; made += 1000) {
      const things = Array.from({ length: 1000 }, (_, at) => ({ name: `pump ${made + at}` }))
      await ask(site, 'POST', '/things/bulk', things)
    }
    const asked: string[] = []
    page.on('request', request => asked.push(new URL(request.url()).pathname + new URL(request.url()).search))
    await visitor.go('#/channels')
    await visitor.go('#/things')
    await page.getByText('10,001 things').waitFor()
    expect(await page.getByRole('row').count()).toBeLessThanOrEqual(rowsMax)
    // Through all of them, as a person who drags the bar.
    await page.evaluate(drag)
    await page.getByRole('link', { name: 'pump 9999' }).waitFor()
    await page.getByLabel('Search by name').press('ArrowDown')
    await expect.poll(() => page.evaluate('document.activeElement.innerText')).toContain('sensor')
    await page.keyboard.press('End')
    await page.getByRole('link', { name: 'pump 9999' }).waitFor()
    await page.keyboard.press('Space')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Space')
    await page.getByText('2 things selected').waitFor()
    expect(await page.getByRole('row').count()).toBeLessThanOrEqual(rowsMax)
    expect(asked.filter(path => /^\/things\/[^/]+\/channels/.test(path)).length).toBeLessThanOrEqual(dragSteps * rowsMax)

    await page.getByLabel('Order').selectOption('Z–A')
    await page.getByRole('link', { name: 'sensor' }).waitFor()
    await page.getByLabel('Search by name').fill('PUMP 77')
    await page.getByText('111 things').waitFor()
    await page.getByLabel('Search by name').press('ArrowDown')
    await expect.poll(() => page.evaluate('document.activeElement.innerText')).toContain('pump 7799')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'pump 7799' }).waitFor()
    expect(asked.filter(path => path.includes('dead-letters'))).toEqual([])
  })

  test('shows of one thing its key, certificates, values and dead letters, publishes as it, and replaces its key', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(platform.url, administrator)])
    await using _ = visitor
    const { page } = visitor
    const dialog = page.getByRole('dialog')
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
    await ask(site, 'POST', '/certs', { thing_id: site.thing, key_type: 'ec' })
    await visitor.go(`#/things/${site.thing}`)
    const key = site.device.slice('Thing '.length)
    await press('Copy the key')
    await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toBe(key)
    expect(await page.locator('main').innerText()).not.toContain(`\n${key}\n`)

    await page.getByText('Waiting for the first message of this thing…').waitFor()
    await page.getByLabel('Language').selectOption('This page')
    await page.getByLabel('Payload').fill('[{"n":"level","u":"m","v":7.25}]')
    await page.getByLabel('Subtopic').fill('tank')
    await press('Publish')
    await page.locator('.arrivals .state.good', { hasText: 'Stored: ' }).waitFor()
    await page.getByRole('row', { name: 'level' }).getByText('7.25', { exact: true }).waitFor()
    await page.getByRole('img', { name: 'Chart of level.' }).waitFor()
    await page.getByLabel('Payload').fill('[{"n":"a b","v":1}]')
    await press('Publish')
    await page.getByRole('alert').getByText('name-characters').waitFor()
    const letter = String((await expectStatus(publish(platform.url, site, '[{"n":"a b","v":1}]'), 202)).json!['id'])
    await expect
      .poll(async () => {
        await press('Look again')
        return page.getByRole('row').filter({ hasText: letter }).count()
      })
      .toBeGreaterThan(0)

    const certificates = page.locator('section', { has: page.getByRole('heading', { name: 'Certificates' }) })
    await certificates.getByRole('button', { name: 'Revoke' }).click()
    await certificates.getByText('revoked').waitFor()

    await press('Replace the key')
    await dialog.getByLabel('The old key ends').selectOption('in an hour')
    await dialog.getByRole('button', { name: 'Replace', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    await press('Show the key')
    await expect.poll(() => page.locator('main code').nth(1).innerText()).not.toBe(key)
    expect((await publish(platform.url, site, [{ n: 'level', v: 1 }])).status).toBe(202)
    await press('Replace the key')
    await dialog.getByRole('button', { name: 'Replace', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    expect((await publish(platform.url, site, [{ n: 'level', v: 1 }])).status).toBe(401)
  })

  test('finds a device by its external id, channels, dead letters and pages, by keyboard alone', async () => {
    const [visitor, site] = await Promise.all([visitAs(administrator), makeSiteOf(platform.url, administrator)])
    await using _ = visitor
    const { page } = visitor
    const config = { external_id: '02:42:ac:11:00:07', external_key: 'f3a1c6d0b5e84c1f', thing_id: site.thing, channels: [site.channel] }
    await ask(site, 'POST', '/things/configs', config)
    const letter = String((await expectStatus(publish(platform.url, site, '[{"n":"a","v":1,"vs":"two"}]'), 202)).json!['id'])
    await expect
      .poll(async () => (await call(platform.url, 'GET', `/admin/dead-letters/${letter}`, { authorization: site.owner })).status)
      .toBe(200)
    const box = page.getByRole('combobox', { name: 'Search' })
    const found = page.getByRole('listbox').getByRole('option')
    const hash = () => page.evaluate('location.hash')
    const search = async (text: string, count: number) => {
      await page.locator('#content').focus()
      await page.keyboard.press('/')
      await box.fill(text)
      await expect.poll(() => found.count()).toBe(count)
    }
    await search('02:42:ac:11:00:07', 1)
    await page.keyboard.press('Enter')
    await expect.poll(hash).toBe(`#/things/${site.thing}`)
    await page.getByRole('dialog').waitFor({ state: 'detached' })

    await search(letter, 1)
    await page.keyboard.press('Enter')
    await expect.poll(hash).toBe(`#/dead-letters/${letter}`)

    await search(site.channel, 1)
    await page.keyboard.press('Enter')
    await expect.poll(hash).toBe(`#/channels/${site.channel}`)

    await search('', 7)
    for (const key of ['ArrowUp', 'ArrowUp', 'ArrowDown']) await page.keyboard.press(key)
    expect(await page.getByRole('listbox').getByRole('option', { selected: true }).innerText()).toContain('Dead letters')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await hash()).toBe(`#/channels/${site.channel}`)
    await search('explor', 1)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Explorer' }).waitFor()
    // A slash in a field is a slash.
    await page.getByLabel('Channel id').press('/')
    expect(await page.getByLabel('Channel id').inputValue()).toBe('/')

    await using stranger = await visitAs(user)
    await stranger.page.keyboard.press('/')
    await stranger.page.getByRole('combobox', { name: 'Search' }).fill('02:42:ac:11:00:07')
    await stranger.page.getByText('Nothing is found.').waitFor()
  })

  test('keeps a board of series of several channels, made by keyboard, whose link shows others what they may read', async () => {
    const [sites, guest] = [
      await Promise.all([1, 2].map(() => makeSiteOf(platform.url, administrator))),
      await makeSiteOf(platform.url, user),
    ]
    const [yard, attic] = sites as [Site, Site]
    const now = Date.now() / 1000
    const packs: readonly (readonly [Site, object[]])[] = [
      [
        yard,
        [0, 60, 120].map((age, at) => ({ n: 'level', u: 'm', v: 7.25 - at, t: now - age })).concat({ n: 'depth', u: 'm', v: 3, t: now }),
      ],
      [attic, [{ n: 'door', vs: '<b onclick=alert(1)>open</b>', t: now - 4000 }]],
      [guest, [{ n: 'heat', u: 'Cel', v: 48 }]],
    ]
    for (const [site, pack] of packs)
      await Promise.all([expectStatus(publish(platform.url, site, pack), 202), readUntil(platform.url, site, pack.length)])

    await using chief = await visitAs(administrator)
    const { page } = chief
    const tile = (shown: Page, name: string) => shown.getByRole('listitem').filter({ has: shown.getByRole('link', { name, exact: true }) })
    await chief.go('#/fleet')
    await page.getByText('A board shows series').waitFor()
    for (const [site, name] of [
      [yard, 'level'],
      [attic, 'door'],
    ] as const) {
      await page.getByRole('link', { name: 'Add series' }).press('Enter')
      const row = page.getByRole('row').filter({ has: page.locator(`a[href="#/live/${site.channel}"]`) })
      await row.press('Enter')
      await page.getByRole('button', { name: `Add ${name} to Fleet` }).press('Enter')
      await page.getByRole('link', { name: 'on it' }).press('Enter')
    }
    await tile(page, 'level').getByText('7.25 m').waitFor()
    await tile(page, 'level').getByRole('img', { name: 'The last hour: 5.25 to 7.25' }).waitFor()
    await tile(page, 'level').locator('.good').waitFor()
    await tile(page, 'door').getByText('<b onclick=alert(1)>open</b>').waitFor()
    await tile(page, 'door').locator('.bad', { hasText: 'quiet: 1 hr ago' }).waitFor()
    await page.getByLabel('Quiet without a value for').selectOption('a day')
    await tile(page, 'door').locator('.good').waitFor()
    await page.getByRole('button', { name: 'Move earlier door' }).press('Enter')
    await page.getByLabel('Name of the board').fill('Farm <i>north</i>')
    // Of the next value, without a new look by the user.
    await expectStatus(publish(platform.url, attic, [{ n: 'door', vs: 'shut' }]), 202)
    await tile(page, 'door').getByText('shut').waitFor()

    // Kept by the browser for this user.
    await page.getByRole('button', { name: 'Copy the link' }).press('Enter')
    const link = String(await page.evaluate('navigator.clipboard.readText()'))
    await page.reload()
    await chief.signIn(administrator)
    await tile(page, 'level').getByText('7.25 m').waitFor()
    const titles = (shown: Page) => shown.getByRole('listitem').getByRole('heading').allInnerTexts()
    expect([await titles(page), await page.getByLabel('Name of the board').inputValue()]).toEqual([['door', 'level'], 'Farm <i>north</i>'])

    // The user may read one of the channels.
    const board = JSON.parse(new URLSearchParams(link.split('?')[1]).get('board')!) as { series: string[][] }
    board.series.push([guest.channel, guest.thing, '', 'heat'], ['<script>', '"', '', hostile])
    const shared = `#/fleet?board=${encodeURIComponent(JSON.stringify(board))}`
    await using other = await visitAs(user)
    await other.go(shared)
    await tile(other.page, 'heat').getByText('48 Cel').waitFor()
    await tile(other.page, 'level').locator('.bad', { hasText: 'you may not read its channel' }).waitFor()
    await tile(other.page, 'door').locator('.bad').waitFor()
    await tile(other.page, hostile).getByText('you may not read its channel').waitFor()
    await other.page.getByRole('button', { name: 'Remove level' }).press('Enter')
    await other.page.getByRole('button', { name: 'Keep it in place of mine' }).press('Enter')
    await tile(other.page, 'heat').getByText('48 Cel').waitFor()
    expect(await titles(other.page)).toEqual(['door', 'heat', hostile])
    for (const text of ['{', '[]', '{"series":[[1,2,3,4],{}]}', '{"series":3}']) {
      await other.go(`#/fleet?board=${encodeURIComponent(text)}`)
      await other.page.getByText('A board shows series').waitFor()
    }
  })
})
