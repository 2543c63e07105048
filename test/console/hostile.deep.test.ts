// The console against hostile texts, lost sessions and restarts, and against the rules of WCAG that a program can check.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { main } from '../bin/command.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingChromium } from '../servers/install/chromium.ts'
import { freePort } from '../servers/process/free-port.ts'
import { call, expectStatus, publish, readUntil } from '../up/operator.ts'
import { administrator, disposableFolder, type Platform, startedFolder, startPlatform } from '../up/platform.ts'
import { openAccount, openBrowser, type Visitor, visit } from './visitor.ts'

/** A browser that took it for HTML would open a dialog, which fails the test. */
const hostile = `"'><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>`

describeUnlessMissing('the console', missingChromium(), () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let port: number
  let platform: Platform
  let browser: Browser
  /** Everything of it is named `hostile`, and published texts like that. */
  let site: { readonly owner: string; readonly channel: string; readonly thing: string; readonly device: string; readonly letter: string }
  const start = (environment = {}) => startPlatform({ data: folder.path, arguments: ['--demo', '--port', String(port)], environment })
  beforeAll(async () => {
    ;[folder, port, browser] = await Promise.all([startedFolder(), freePort(), openBrowser()])
    platform = await start()
    site = await makeHostileSite()
  })
  afterAll(async () => {
    await browser?.close()
    expect(await platform?.stop()).toBe(0)
    await folder[Symbol.asyncDispose]()
  })

  const tokenOf = async (credentials: typeof administrator): Promise<string> =>
    String((await expectStatus(call(platform.url, 'POST', '/tokens', { body: credentials }), 201)).json!['token'])

  async function makeHostileSite() {
    const owner = `Bearer ${await tokenOf(administrator)}`
    const make = async (kind: 'things' | 'channels') => {
      const body = Array.from({ length: 25 }, () => ({ name: hostile, metadata: { [hostile]: hostile, long: 'x'.repeat(2000) } }))
      const answer = await expectStatus(call(platform.url, 'POST', `/${kind}/bulk`, { authorization: owner, body }), 201)
      return (answer.json![kind] as { id: string; key: string }[])[0]!
    }
    const [thing, channel] = [await make('things'), await make('channels')]
    const body = { channel_ids: [channel.id], thing_ids: [thing.id] }
    await expectStatus(call(platform.url, 'POST', '/connect', { authorization: owner, body }), 200)
    const made = { owner, channel: channel.id, thing: thing.id, device: `Thing ${thing.key}` }
    await expectStatus(
      publish(platform.url, made, [
        { n: 'text', u: hostile, vs: hostile },
        { n: 'number', u: hostile, v: 1 },
      ]),
      202,
    )
    await readUntil(platform.url, made, 2)
    const { json } = await expectStatus(
      publish(platform.url, made, JSON.stringify([{ n: hostile, vs: hostile + '\u0001'.repeat(200) }])),
      202,
    )
    const letter = String(json!['id'])
    while ((await call(platform.url, 'GET', `/admin/dead-letters/${letter}`, { authorization: owner })).status !== 200) await setTimeout(20)
    return { ...made, letter }
  }

  /** Each view, with what shows that it is complete. */
  const views: readonly (readonly [hash: () => string, complete: (page: Page) => Promise<void>])[] = [
    [() => '#/overview', page => page.getByText('adds up').waitFor()],
    [() => '#/things', page => page.getByLabel('Select all that are loaded').waitFor()],
    [
      () => `#/things/${site.thing}`,
      async page => {
        await page.locator('pre.snippet').waitFor()
        await page.getByRole('img', { name: 'Chart of number.' }).waitFor()
        await page.getByText('It has none: it uses its key.').waitFor()
        await page.getByRole('row').filter({ hasText: site.letter }).waitFor()
      },
    ],
    // A narrow screen hides its column.
    [() => '#/channels', page => page.locator('[aria-label$="in the last hour"]').first().waitFor({ state: 'attached' })],
    [() => `#/channels/${site.channel}`, page => page.getByLabel('Select all that are loaded').waitFor()],
    [
      () => {
        const series = [
          [site.channel, site.thing, '', 'number'],
          ['x', hostile, hostile, hostile],
        ]
        return `#/fleet?board=${encodeURIComponent(JSON.stringify({ title: hostile, series }))}`
      },
      async page => {
        await page.getByText('no value').waitFor()
        await page.getByRole('img', { name: 'The last hour: 1 to 1' }).waitFor()
      },
    ],
    [
      () => `#/live/${site.channel}`,
      page =>
        page
          .getByLabel('Length of the range')
          .selectOption('1 day')
          .then(() => page.getByRole('img', { name: 'Chart of number.' }).waitFor()),
    ],
    [
      () => `#/explorer/${site.channel}`,
      page =>
        page
          .getByRole('button', { name: 'Read', exact: true })
          .click()
          .then(() => page.getByRole('row', { name: 'text' }).first().waitFor()),
    ],
    [() => '#/dead-letters', page => page.getByRole('link', { name: site.letter, exact: true }).waitFor()],
    [() => `#/dead-letters/${site.letter}`, page => page.getByLabel('Payload in hexadecimal').waitFor()],
    [() => '#/break', page => page.getByText('adds up').waitFor()],
  ]
  async function eachView(visitor: Visitor, check: (page: Page, hash: string) => Promise<void>): Promise<void> {
    for (const [hash, complete] of views) {
      await visitor.go(hash())
      await complete(visitor.page).catch(async (error: unknown) => {
        throw new Error(`${hash()} shows:\n${await visitor.page.locator('main').innerText()}`, { cause: error })
      })
      await check(visitor.page, hash())
    }
  }

  test('shows names, metadata, values, units and payloads of dead letters as text', async () => {
    await using visitor = await visit(browser, platform.url)
    await visitor.signIn(administrator)
    await eachView(visitor, async (page, hash) => {
      if (hash === '#/overview') {
        await publish(platform.url, site, [{ n: 'text', u: hostile, vs: hostile }])
        await page.getByText(JSON.stringify(hostile)).first().waitFor()
      }
      expect(await page.locator('[onerror], [onload], main script, main img').count(), hash).toBe(0)
    })
    await visitor.go(`#/things/${site.thing}`)
    const dialog = visitor.page.getByRole('dialog')
    for (const [name, complete] of [
      ['Delete', dialog.getByText('This cannot be undone')],
      ['Connect channels', dialog.getByLabel('Select all that are loaded')],
    ] as const) {
      await visitor.page.getByRole('button', { name, exact: true }).click()
      await complete.waitFor()
      expect(await visitor.page.locator('[onerror], [onload], main script, main img').count(), name).toBe(0)
      await visitor.page.keyboard.press('Escape')
    }
    await visitor.page.keyboard.press('/')
    await visitor.page.getByRole('combobox', { name: 'Search' }).fill('onerror')
    await visitor.page.getByRole('listbox').getByRole('option').nth(1).waitFor()
    expect(await visitor.page.locator('[onerror], [onload], dialog script, dialog img').count()).toBe(0)
  })

  describe.each(['light', 'dark'] as const)('in %s', colorScheme => {
    test('breaks no rule of axe for WCAG 2.2 AA, also on a narrow screen, which scrolls only downwards', async () => {
      for (const width of [1280, 320]) {
        await using visitor = await visit(browser, platform.url, { colorScheme, viewport: { width, height: 800 } })
        await expectAccessible(visitor.page, `sign-in at ${width}`)
        await visitor.signIn(administrator)
        await eachView(visitor, (page, hash) => expectAccessible(page, `${hash} at ${width}`))
        for (const [hash, name] of [
          ['#/things', 'Create things'],
          [`#/things/${site.thing}`, 'Connect channels'],
          [`#/things/${site.thing}`, 'Delete'],
          [`#/things/${site.thing}`, 'Replace the key'],
          ['#/overview', 'Search'],
          [`#/dead-letters/${site.letter}`, 'Replay 1'],
        ] as const) {
          await visitor.go(hash)
          await visitor.page.getByRole('button', { name, exact: true }).click()
          await visitor.page.getByRole('dialog').locator('button:not([aria-busy=true])').first().waitFor()
          await expectAccessible(visitor.page, `${name} at ${width}`)
          await visitor.page.keyboard.press('Escape')
        }
        await visitor.inAccount()
        await expectAccessible(visitor.page, `account at ${width}`)
        await visitor.page.keyboard.press('Escape')
        for (const dialog of ['API keys', 'Change password']) {
          await visitor.inAccount(dialog)
          await expectAccessible(visitor.page, `${dialog} at ${width}`)
          await visitor.page.keyboard.press('Escape')
        }
        if (width > 1000) continue
        await visitor.page.getByRole('button', { name: 'Views' }).click()
        await expectAccessible(visitor.page, 'the menu of views')
      }
    })
  })

  test('works by keyboard alone: skip link, focus in a dialog, and back to what opened it', async () => {
    await using visitor = await visit(browser, platform.url)
    const { page } = visitor
    await page.getByLabel('Email').focus()
    await page.keyboard.type(administrator.email)
    await page.keyboard.press('Tab')
    await page.keyboard.type(administrator.password)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Your account' }).waitFor()
    await visitor.go('#/things')
    const focused = () => page.evaluate('document.activeElement.id || document.activeElement.textContent')
    await expect.poll(focused).toBe('content')
    await page.getByRole('button', { name: 'Create things' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    expect(await page.evaluate('document.activeElement.closest("dialog") !== null')).toBe(true)
    await page.evaluate(moveFocusOnceClosed)
    await page.keyboard.press('Escape')
    expect(await page.evaluate('moved')).toEqual(['Create things', 'content'])
    await page.evaluate('document.body.tabIndex = -1, document.body.focus()')
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('Skip to the content')
    await page.keyboard.press('Enter')
    expect(await focused()).toBe('content')
  })

  test('returns to the sign-in when the token ends in the middle, also of a stream', async () => {
    const guest = { email: 'guest@sluice.example', password: 'correct horse battery' }
    await expectStatus(call(platform.url, 'POST', '/users', { body: guest }), 201)
    await using visitor = await visit(browser, platform.url)
    const { page } = visitor
    await visitor.signIn(guest, { keep: true })
    await visitor.go('#/things')
    await page.getByText('A thing is a device').waitFor()
    const authorization = `Bearer ${await tokenOf(guest)}`
    const change = { old_password: guest.password, password: 'another horse battery' }
    await expectStatus(call(platform.url, 'PATCH', '/password', { authorization, body: change }), 201)
    await page.getByRole('button', { name: 'Create things' }).click()
    await page.getByLabel('Names').fill('pump')
    await page.getByRole('button', { name: 'Create 1 thing' }).click()
    await page.getByText('Your session ended: sign in again.').waitFor()
    expect(await page.evaluate('sessionStorage.length')).toBe(0)

    await visitor.signIn({ ...guest, password: change.password })
    const thing = await make(`Bearer ${await tokenOf({ ...guest, password: change.password })}`)
    await visitor.go(`#/things/${thing}`)
    await page.getByText('Waiting for the first message of this thing…').waitFor()
    await expectStatus(
      call(platform.url, 'PUT', `/users/${await idOf(guest.email)}/disabled`, { authorization: site.owner, body: { disabled: true } }),
      204,
    )
    await page.getByText('Your session ended: sign in again.').waitFor()
  })

  async function make(authorization: string): Promise<string> {
    const create = async (kind: string) =>
      (await expectStatus(call(platform.url, 'POST', `/${kind}/bulk`, { authorization, body: [{ name: 'own' }] }), 201)).json![kind] as {
        id: string
      }[]
    const [[thing], [channel]] = [await create('things'), await create('channels')]
    await expectStatus(
      call(platform.url, 'POST', '/connect', { authorization, body: { thing_ids: [thing!.id], channel_ids: [channel!.id] } }),
      200,
    )
    return thing!.id
  }

  async function idOf(email: string): Promise<string> {
    const { json } = await expectStatus(call(platform.url, 'GET', `/users?email=${email}`, { authorization: site.owner }), 200)
    return (json!['users'] as { id: string }[])[0]!.id
  }

  test('signs out in every tab', async () => {
    await using visitor = await visit(browser, platform.url)
    await visitor.signIn(administrator)
    const other = await visitor.page.context().newPage()
    await other.goto(platform.url)
    // sessionStorage belongs to one tab, so the other one signs in for itself.
    await other.getByLabel('Email').fill(administrator.email)
    await other.getByLabel('Password').fill(administrator.password)
    await other.getByRole('button', { name: 'Sign in' }).click()
    await openAccount(other)
    await other.getByRole('button', { name: 'Sign out' }).click()
    await visitor.page.getByText('You signed out in another tab.').waitFor()
  })

  test('continues after a restart of the server', async () => {
    await using visitor = await visit(browser, platform.url)
    const { page } = visitor
    await visitor.signIn(administrator)
    await page.getByText('up to date').waitFor()
    await platform.stop()
    await page.getByText('connecting…').waitFor()
    await visitor.go('#/things')
    await page.getByText('The server does not answer. Is it running?').waitFor()
    await visitor.go('#/overview')
    platform = await start()
    await page.getByText('up to date').waitFor()
    await page.getByText('adds up').waitFor()
  })

  test('replays a dead letter whose cause was removed, after it said that it would be stored', async () => {
    await platform.stop()
    platform = await start({ SVC_STORE_FORMATS_PER_CHANNEL_MAX: '1' })
    const { owner: authorization, device } = site
    const { json } = await expectStatus(call(platform.url, 'POST', '/channels/bulk', { authorization, body: [{ name: 'formats' }] }), 201)
    const [channel] = json!['channels'] as [{ id: string }]
    const pair = { channel_ids: [channel.id], thing_ids: [site.thing] }
    await expectStatus(call(platform.url, 'POST', '/connect', { authorization, body: pair }), 200)
    let id = ''
    for (const format of ['first', 'second']) {
      const path = `/channels/${channel.id}/messages/${format}`
      id = String((await expectStatus(call(platform.url, 'POST', path, { authorization: device, body: { speed: 1 } }), 202)).json!['id'])
    }
    await using visitor = await visit(browser, platform.url)
    const { page } = visitor
    await visitor.signIn(administrator)
    await page.getByRole('link', { name: 'format-limit' }).waitFor()
    await platform.stop()
    platform = await start()
    await page.getByText('up to date').waitFor()
    await page.getByRole('link', { name: 'format-limit' }).click()
    await page.getByRole('link', { name: id, exact: true }).click()
    await page.getByRole('button', { name: 'Replay' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('1 would be stored, 0 would stay open').waitFor()
    await dialog.getByRole('button', { name: 'Replay' }).click()
    await dialog.getByText('1 stored, 0 stay open').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).first().click()
    await page.getByText('● replayed').waitFor()
  })

  test('the link of a first start signs in as the administrator, once', async () => {
    await using empty = await disposableFolder()
    const command = `${process.execPath} ${main} up --port 0 --data ${empty.path}`
    const terminal = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] })
    const over = once(terminal, 'close')
    onTestFinished(async () => {
      terminal.kill()
      await over
    })
    let shown = ''
    for await (const chunk of terminal.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      shown += String(chunk)
      if (/^ready on /m.test(shown)) break
    }
    const link = /http:\/\/\S+\/#\/sign-in\/\S+/.exec(shown)?.[0] ?? shown
    await using visitor = await visit(browser, link)
    await visitor.inAccount()
    await visitor.page.getByText('admin@sluice.local').waitFor()
    expect(visitor.page.url()).not.toContain('sign-in')
    await using late = await visit(browser, link)
    await late.page.getByRole('alert').getByText('this code is not valid').waitFor()
  })
})

/** Moves the focus to the content in the moment in which the dialog is gone: what had it then, and what has it after the next frame. */
const moveFocusOnceClosed = `void (moved = new Promise(resolve => {
  new MutationObserver((_, observer) => {
    if (document.querySelector('dialog') !== null) return
    observer.disconnect()
    const before = document.activeElement.textContent
    document.getElementById('content').focus()
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve([before, document.activeElement.id]))))
  }).observe(document.body, { childList: true, subtree: true })
}))`

/** Runs axe in the page, and looks whether the page is wider than its window. */
async function expectAccessible(page: Page, what: string): Promise<void> {
  // Not by an element, which the policy of the page would refuse.
  await page.evaluate(axe.source)
  // A colour in the middle of a transition has another contrast.
  await page.evaluate('Promise.all(document.getAnimations().map(({ finished }) => finished.catch(() => undefined)))')
  const { violations } = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })`,
  )) as axe.AxeResults
  expect(
    violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => `${html}: ${failureSummary}`)]),
    what,
  ).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), `${what}: width`).toBeLessThanOrEqual(0)
}
