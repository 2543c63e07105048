// Which emails and passwords a registration accepts, and the normalised form in which an email is stored and compared.

import type { Fault } from '../../http/errors.ts'
import { refuseFaults, textFault } from '../requests/text.ts'

/** RFC 5321 §4.5.3.1: 64 bytes before the @, and 254 for the whole, since a path has 256 with its brackets. */
const localBytesMax = 64
export const emailBytesMax = 254
export const passwordCharactersMin = 8
export const passwordBytesMax = 1_024

export interface Credentials {
  readonly email: string
  readonly password: string
}

/** Trimmed, NFC, lower case: two spellings that mail servers deliver to one person are one account. */
export function normaliseEmail(email: string): string {
  return email.trim().normalize('NFC').toLowerCase()
}

/** @throws HttpError `malformed_request` for a password that a registration refuses */
export function checkNewPassword(password: string): void {
  const detail = passwordFault(password)
  if (detail !== undefined) refuseFaults([{ pointer: '/body/password', detail }])
}

/** @throws HttpError `malformed_request` that names every fault */
export function checkNewCredentials(credentials: Credentials): void {
  refuseFaults(credentialFaults(credentials))
}

/** The faults for which a registration would refuse a body with these fields. */
export function credentialFaults({ email, password }: Credentials): Fault[] {
  const faults: Fault[] = []
  const faultInEmail = emailFault(normaliseEmail(email))
  if (faultInEmail !== undefined) faults.push({ pointer: '/body/email', detail: faultInEmail })
  const faultInPassword = passwordFault(password)
  if (faultInPassword !== undefined) faults.push({ pointer: '/body/password', detail: faultInPassword })
  return faults
}

/** Dot-atoms and internationalised names (RFC 6531), with or without a dot in the domain; no quotes, comments or address literals. */
function emailFault(email: string): string | undefined {
  const fault = textFault(email, emailBytesMax)
  if (fault !== undefined) return fault
  // Where nothing is to be seen, two accounts look the same.
  const isVisible = !/\p{Default_Ignorable_Code_Point}/u.test(email)
  const match = /^([^\s@"(),:;<>[\\\]\p{C}]+)@([\p{L}\p{N}\p{M}](?:[\p{L}\p{N}\p{M}.-]*[\p{L}\p{N}\p{M}])?)$/u.exec(email)
  const [, local = '', domain = ''] = match ?? []
  const hasEmptyPart = `.${local}.`.includes('..') || domain.includes('..')
  if (match === null || !isVisible || hasEmptyPart || Buffer.byteLength(local) > localBytesMax)
    return 'is not an email: give one such as name@example.com'
  return undefined
}

function passwordFault(password: string): string | undefined {
  const fault = textFault(password, passwordBytesMax)
  if (fault !== undefined) return fault
  if ([...new Intl.Segmenter().segment(password)].length < passwordCharactersMin)
    return `is too short: give at least ${passwordCharactersMin} characters`
  return undefined
}
