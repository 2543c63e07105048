// A person with a browser in front of the console: a real Chromium, whose errors fail the test.

import { type Browser, type BrowserContextOptions, chromium as engine, type Page } from 'playwright-core'
import { chromium } from '../servers/install/chromium.ts'

export interface Credentials {
  readonly email: string
  readonly password: string
}

/** Chromium refuses its sandbox to root. */
export function openBrowser(): Promise<Browser> {
  return engine.launch({ executablePath: chromium, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
}

export interface Visitor extends AsyncDisposable {
  readonly page: Page
  /** Goes to another view of the same page: `#/things`. */
  go(hash: string): Promise<void>
  signIn(credentials: Credentials, options?: { readonly keep?: boolean }): Promise<void>
  /** Opens the menu with who is signed in, and presses one of its buttons. */
  inAccount(button?: string): Promise<void>
}

/** The menu of the account, also on a page that is not the visitor's first. */
export async function openAccount(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Your account' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

/**
 * A fresh profile on the console at `url`. Its disposal throws if a script failed, or the page broke a rule of its Content-Security-Policy.
 */
export async function visit(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'], ...options })
  const page = await context.newPage()
  const failures: string[] = []
  page.on('pageerror', error => failures.push(String(error)))
  page.on('dialog', dialog => (failures.push(`a script opened: ${dialog.message()}`), void dialog.dismiss()))
  page.on('console', message => {
    // Refusals by the API are part of what is tested.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) failures.push(message.text())
  })
  await page.goto(url)
  return {
    page,
    async go(hash) {
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
    },
    async signIn({ email, password }, { keep = false } = {}) {
      await page.getByLabel('Email').fill(email)
      await page.getByLabel('Password').fill(password)
      if (keep) await page.getByLabel('Stay signed in').check()
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('button', { name: 'Your account' }).waitFor()
    },
    async inAccount(button) {
      await openAccount(page)
      if (button !== undefined) await page.getByRole('button', { name: button }).click()
    },
    async [Symbol.asyncDispose]() {
      await context.close()
      if (failures.length > 0) throw new Error(`the page failed: ${failures.join('\n')}`)
    },
  }
}
