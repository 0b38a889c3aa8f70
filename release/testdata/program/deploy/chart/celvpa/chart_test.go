package celvpa
