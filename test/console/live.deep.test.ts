// The console's charts at 10,000 points a second, and with numbers at the ends of a double.

import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sendPoints, seriesCount } from '../readers/live/chart-points.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingChromium } from '../servers/install/chromium.ts'
import { expectStatus, makeSiteOf, publish } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'
import { openBrowser, visit } from './visitor.ts'

const seconds = 5

describeUnlessMissing("the console's charts", missingChromium(), () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let platform: Platform
  let browser: Browser
  beforeAll(async () => {
    ;[folder, browser] = await Promise.all([startedFolder(), openBrowser()])
    platform = await startPlatform({ data: folder.path })
  })
  afterAll(async () => {
    await browser?.close()
    expect(await platform?.stop()).toBe(0)
    await folder[Symbol.asyncDispose]()
  })

  test(`draw each of the points that come in ${seconds} seconds, 10,000 in each`, async () => {
    const site = await makeSiteOf(platform.url, administrator)
    await using visitor = await visit(browser, platform.url)
    const { page } = visitor
    await visitor.signIn(administrator)
    await visitor.go(`#/live/${site.channel}`)
    await page.getByText('following').waitFor()
    const sent = await sendPoints(platform.url, site, seconds)
    const charts = page.locator('.charts')
    await expect.poll(() => charts.getAttribute('data-points'), { timeout: 60_000 }).toBe(String(sent))
    expect(Number(await charts.getAttribute('data-frames'))).toBeGreaterThan(0)
    await page.getByRole('img', { name: 'Chart of sensor-0' }).locator('canvas').waitFor()
    await page.getByText(`${sent.toLocaleString('en')} points`).waitFor()
    expect(await page.getByRole('row').count()).toBe(1 + seriesCount)
  })

  test('draw numbers whose ticks a double cannot tell apart, and the largest ones', async () => {
    const site = await makeSiteOf(platform.url, administrator)
    await using visitor = await visit(browser, platform.url)
    await visitor.signIn(administrator)
    await visitor.go(`#/live/${site.channel}`)
    await visitor.page.getByText('following').waitFor()
    const pairs = { close: [1e16, 1e16 + 2], large: [-Number.MAX_VALUE, Number.MAX_VALUE], small: [0, Number.MIN_VALUE], equal: [7, 7] }
    const records = Object.entries(pairs).flatMap(([name, values]) => values.map(v => ({ n: name, u: name, v })))
    await expectStatus(publish(platform.url, site, records), 202)
    for (const name of Object.keys(pairs))
      await visitor.page
        .getByRole('img', { name: `Chart of ${name}.` })
        .locator('canvas')
        .waitFor()
    await expect.poll(() => visitor.page.locator('.charts').getAttribute('data-points')).toBe(String(records.length))
  })
})
