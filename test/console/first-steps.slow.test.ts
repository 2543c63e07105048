// A new user: from an empty platform to the first message in a chart, in a frame that stays where it is.

import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingChromium } from '../servers/install/chromium.ts'
import { makeSiteOf, publish } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'
import { openBrowser, visit } from './visitor.ts'

const shiftMax = 0.02
const transferredBytesMax = 150 * 1024
/** Sums up how far what is shown moves without a key or click (https://web.dev/articles/cls). */
const watchShifts = `shifted = 0
new PerformanceObserver(list => {
  for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value
}).observe({ type: 'layout-shift', buffered: true })`

describeUnlessMissing('a new user', missingChromium(), () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser?.close())

  async function onPlatform(extra: readonly string[], work: (platform: Platform) => Promise<void>): Promise<void> {
    await using folder = await startedFolder()
    const platform = await startPlatform({ data: folder.path, arguments: extra })
    await work(platform)
    expect(await platform.stop()).toBe(0)
  }

  test('creates a device, sends its first message and sees it; each step marks itself', async () => {
    await onPlatform([], async ({ url }) => {
      await using visitor = await visit(browser, url)
      const { page } = visitor
      await visitor.signIn(administrator)
      await page.getByText('./sluice up --demo').waitFor()
      await page.getByLabel('Device').fill('first probe')
      await page.getByRole('button', { name: 'Create the device' }).click()
      await page.getByText('Create a device: done').waitFor()
      await page.getByRole('link', { name: 'first probe' }).waitFor()
      await page.getByText('Waiting for the first message of this thing…').waitFor()
      const command = await page.locator('pre.snippet').innerText()
      const shell = spawn('sh', { stdio: ['pipe', 'pipe', 'ignore'] })
      shell.stdin.end(command)
      expect(await text(shell.stdout)).toContain(' 202 ')
      await page.getByText('Send a message: done').waitFor()
      await page.getByText('Stored: 1-0-0').waitFor()
      await page.getByRole('link', { name: 'Open it in Live' }).click()
      await page.getByRole('img', { name: 'Chart of sensor:temperature.' }).waitFor()
      await page.getByRole('cell', { name: '21.5' }).waitFor()
      // Another filter than that of the address, which the next figures leave as it is.
      const thing = page.getByLabel('Thing id')
      expect(await thing.inputValue()).toMatch(/^[0-9a-f-]{36}$/)
      await thing.fill('')
      await page.getByLabel('Name', { exact: true }).fill('sensor:temperature')
      await page.keyboard.press('Tab')
      await expect.poll(() => page.evaluate('location.hash')).toMatch(/\?name=sensor%3Atemperature$/)
      expect(await thing.inputValue()).toBe('')
      await visitor.go('#/overview')
      await page.getByText('adds up').waitFor()
    })
  })

  test('opens Live at what was received, also when it is not of the thing in the first step', async () => {
    await onPlatform([], async ({ url }) => {
      const sites = [await makeSiteOf(url, administrator), await makeSiteOf(url, administrator)] as const
      await using visitor = await visit(browser, url)
      const { page } = visitor
      await visitor.signIn(administrator)
      const shown = await page.getByRole('link', { name: 'sensor' }).getAttribute('href')
      const sender = sites.find(({ thing }) => !shown!.endsWith(thing))!
      expect((await publish(url, sender, [{ n: 'temperature', v: 21.5 }])).status).toBe(202)
      await page.getByRole('link', { name: 'Open it in Live' }).click()
      await page.getByRole('cell', { name: '21.5' }).waitFor()
      expect(await page.evaluate('location.hash')).toBe(`#/live/${sender.channel}?publisher=${sender.thing}`)
    })
  })

  test('looks at simulated devices first, in a frame that does not move', async () => {
    await onPlatform(['--demo'], async ({ url }) => {
      await using visitor = await visit(browser, url, { viewport: { width: 1440, height: 900 } })
      const { page } = visitor
      await page.addInitScript(watchShifts)
      await visitor.signIn(administrator, { keep: true })
      await page.getByRole('button', { name: 'Show me with simulated devices' }).click()
      await page
        .getByRole('link', { name: /^demo-\d/ })
        .first()
        .waitFor()
      await expectInSight(page, 'after the first click')
      // Nothing was cached before.
      const bytes = await page.evaluate(
        `performance.getEntriesByType('resource').reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`,
      )
      expect(bytes).toBeGreaterThan(transferredBytesMax / 10)
      expect(bytes).toBeLessThanOrEqual(transferredBytesMax)

      // The same view again, from far down: the frame stays, and the view begins at its top.
      await page.evaluate('scrollTo(0, document.body.scrollHeight)')
      await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).click()
      await expect.poll(() => page.evaluate('scrollY')).toBe(0)
      await expectInSight(page, 'after a click on the view that is shown')

      for (const width of [1440, 390]) {
        await page.setViewportSize({ width, height: 900 })
        for (const [view, complete] of [
          ['#/overview', page.getByRole('link', { name: /^demo-\d/ }).first()],
          ['#/things', page.getByText('100 things')],
          ['#/channels', page.getByRole('link', { name: 'demo' })],
          ['#/live', page.getByLabel('Channel id')],
          ['#/explorer', page.getByLabel('Channel id')],
          ['#/dead-letters', page.getByText('None is open')],
          ['#/break', page.getByText('adds up')],
        ] as const) {
          await visitor.go(view)
          await page.reload()
          await complete.waitFor()
          await expectInSight(page, `${view} at ${width}`)
          expect(await page.evaluate('shifted'), `${view} at ${width}`).toBeLessThanOrEqual(shiftMax)
        }
      }
    })
  })

  test('keeps the theme and the folded views of this browser', async () => {
    await onPlatform([], async ({ url }) => {
      await using visitor = await visit(browser, url, { colorScheme: 'light' })
      const { page } = visitor
      await visitor.signIn(administrator, { keep: true })
      const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
      const light = await ground()
      await visitor.inAccount()
      await page.getByLabel('Theme').selectOption('Dark')
      await page.keyboard.press('Escape')
      const dark = await ground()
      expect(dark).not.toBe(light)
      await page.getByRole('button', { name: 'Collapse' }).click()
      const width = async () => Number(await page.evaluate(`document.querySelector('nav').offsetWidth`))
      expect(await width()).toBeLessThan(80)
      await page.reload()
      await page.getByRole('button', { name: 'Expand' }).waitFor()
      expect([await ground(), (await width()) < 80]).toEqual([dark, true])
    })
  })
})

/** The state of the platform, and on wide screens the views. */
async function expectInSight(page: Page, when: string): Promise<void> {
  const { width, height } = page.viewportSize()!
  const state = page.getByLabel('State of the platform').getByText('writer')
  for (const part of width > 1000 ? [state, page.getByRole('link', { name: 'Overview' })] : [state]) {
    await part.waitFor()
    const { y } = (await part.boundingBox())!
    expect(y >= 0 && y < height, when).toBe(true)
  }
}
